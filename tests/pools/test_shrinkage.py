"""The option `shrinkage` of the covariance pools, against scikit-learn's estimates; vN-MLE of `mpn`."""

import numpy as np
import pytest
import sklearn.covariance
import torch
from scipy import linalg
from torch import Tensor

import covpool
from cases import features, hard_features
from covpool import create_pool
from ops import reference

POOLS = ("cov", "mpn", "isqrt")
SHRINKAGES = ("ledoit_wolf", "oas")

every_pool = pytest.mark.parametrize("name", POOLS)
every_shrinkage = pytest.mark.parametrize("shrinkage", SHRINKAGES)


def expected(name: str, x: Tensor, shrinkage: str) -> Tensor:
    """Compute the expected vector of each image from scikit-learn's covariance."""
    rows, columns = torch.triu_indices(x.shape[-1], x.shape[-1])
    vectors = []
    for item in x:
        sigma = getattr(sklearn.covariance, shrinkage)(item.numpy())[0]
        root = {
            "cov": lambda a: torch.from_numpy(a),
            "mpn": lambda a: torch.from_numpy(linalg.sqrtm(a)),
            "isqrt": lambda a: reference.isqrt_spectral(torch.from_numpy(a), 5),
        }[name](sigma)
        vectors.append(root[rows, columns])
    return torch.stack(vectors)


@every_pool
@every_shrinkage
@pytest.mark.parametrize("n", [5, 40])
def test_equals_the_pool_of_scikit_learns_covariance(name: str, shrinkage: str, n: int) -> None:
    x = features(2, n, 8)
    pool = create_pool(name, 8, shrinkage=shrinkage)
    torch.testing.assert_close(pool(x), expected(name, x, shrinkage), rtol=1e-9, atol=1e-11)


@every_pool
@every_shrinkage
def test_a_mask_equals_slicing_and_an_empty_one_gives_zeros(name: str, shrinkage: str) -> None:
    x, pool = features(2, 12, 5), create_pool(name, 5, shrinkage=shrinkage)
    mask = torch.arange(12) < torch.tensor([[7], [0]])
    z = pool(x.masked_fill(~mask.unsqueeze(-1), torch.nan), mask=mask)
    torch.testing.assert_close(z[:1], expected(name, x[:1, :7], shrinkage), rtol=1e-9, atol=1e-11)
    assert (z[1] == 0).all()


@every_pool
@every_shrinkage
def test_gradient_of_the_features(name: str, shrinkage: str) -> None:
    x = features(1, 4, 5) * torch.linspace(0.5, 3, 5)
    assert torch.autograd.gradcheck(create_pool(name, 5, shrinkage=shrinkage), x.requires_grad_(), atol=1e-6)


@every_pool
@every_shrinkage
def test_finite_on_hard_cases(name: str, shrinkage: str) -> None:
    for x in hard_features().values():
        x.requires_grad_()
        z = create_pool(name, 16, shrinkage=shrinkage)(x)
        (dx,) = torch.autograd.grad(z.sum(), x)
        assert z.isfinite().all() and dx.isfinite().all()


@every_pool
def test_half_precision_and_autocast_give_float32(name: str) -> None:
    x, pool = features(2, 12, 5, dtype=torch.float32), create_pool(name, 5, shrinkage="oas")
    exact = pool(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(pool(x), exact)
    z = pool(x.bfloat16())
    assert z.dtype == torch.float32
    torch.testing.assert_close(z, exact, rtol=0.1, atol=0.1)


@every_pool
def test_compiles_without_a_graph_break(name: str) -> None:
    torch._dynamo.reset()
    x, pool = features(2, 12, 5, dtype=torch.float32), create_pool(name, 5, shrinkage="ledoit_wolf")
    compiled = torch.compile(pool, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), pool(x))


@every_pool
def test_wrong_use_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"`shrinkage` must be one of .*ledoit_wolf"):
        create_pool(name, 5, shrinkage="ledoit")
    with pytest.raises(ValueError, match="weighted positions; use a mask"):
        create_pool(name, 5, shrinkage="oas")(features(2, 9, 5), weights=torch.ones(2, 9))


@pytest.mark.parametrize("gamma", [0.3, 0.75, 1.0, 2.0])
@pytest.mark.parametrize("n", [5, 40])
def test_vn_mle_solves_its_quadratic_equation(n: int, gamma: float) -> None:
    """gamma P^2 + (1 - gamma) P = Sigma, with the positive root."""
    x = features(2, n, 8)
    p = covpool.ops.unvech(create_pool("mpn", 8, gamma=gamma)(x))
    sigma = torch.from_numpy(np.stack([np.cov(item.numpy().T, bias=True) for item in x]))
    torch.testing.assert_close(gamma * p @ p + (1 - gamma) * p, sigma, rtol=1e-9, atol=1e-11)
    assert torch.linalg.eigvalsh(p).min() > -1e-12


def test_vn_mle_of_a_shrunk_covariance() -> None:
    x = features(2, 5, 8)
    p = covpool.ops.unvech(create_pool("mpn", 8, gamma=0.75, shrinkage="oas")(x))
    sigma = np.stack([sklearn.covariance.oas(item.numpy())[0] for item in x])
    torch.testing.assert_close(0.75 * p @ p + 0.25 * p, torch.from_numpy(sigma), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("gamma", [0.75, 2.0])
def test_vn_mle_with_masks_weights_and_hard_features(gamma: float) -> None:
    x, pool = features(2, 12, 5), create_pool("mpn", 5, gamma=gamma)
    mask = torch.arange(12) < torch.tensor([[7], [0]])
    z = pool(x, mask=mask)
    torch.testing.assert_close(z[:1], pool(x[:1, :7]))
    torch.testing.assert_close(pool(x, weights=mask.double()), z)
    assert (z[1] == 0).all()
    for hard in hard_features().values():
        hard.requires_grad_()
        z = create_pool("mpn", 16, gamma=gamma)(hard)
        assert z.isfinite().all() and torch.autograd.grad(z.sum(), hard)[0].isfinite().all()


@pytest.mark.parametrize(
    "options", [{"alpha": 0.7}, {"learn_alpha": True}, {"normalization": "spectral"}, {"null_gradient": "released"}]
)
def test_vn_mle_refuses_the_options_of_the_power(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="`gamma` replaces the power"):
        create_pool("mpn", 5, gamma=0.75, **options)


def test_wrong_gamma_is_refused() -> None:
    with pytest.raises(ValueError, match="`gamma` must be positive"):
        create_pool("mpn", 5, gamma=0.0)
