"""SPDNet layers against numpy and scipy, and orthonormal weights, in float64."""

import copy
import pickle

import numpy as np
import pytest
import torch
from scipy import linalg
from torch import Tensor

from cases import features, hard_features
from covpool import create_pool
from covpool.pools import ManifoldPool


def make(c: int = 8, **options: object) -> ManifoldPool:
    torch.manual_seed(0)
    return ManifoldPool(c, **options).double()


def direct(
    pool: ManifoldPool, x: Tensor, *, regularizer: float = 1e-4, bounds: tuple[float, float] = (1e-4, 1e4), **_: object
) -> Tensor:
    """Compute all layers with numpy and the published constants, image by image."""
    result = []
    for item in x.numpy():
        a = np.cov(item.T)
        a = a + regularizer * np.trace(a) * np.eye(len(a))
        for bilinear in pool.maps:
            w = bilinear.weight.detach().numpy()
            values, u = np.linalg.eigh(w.T @ a @ w)
            values = np.clip(values, *bounds)
            a = (u * values) @ u.T
        result.append(((u * np.log(values)) @ u.T).flatten())
    return torch.from_numpy(np.stack(result))


@pytest.mark.parametrize(
    "options",
    [{}, {"dims": (6, 6, 3)}, {"manifold": "free"}, {"regularizer": 1e-3}, {"dims": 5, "bounds": (0.4, 1.2)}],
)
def test_equals_the_layers_one_by_one(options: dict[str, object]) -> None:
    x, pool = features(2, 30, 8) + 1, make(**options)
    order = pool.maps[-1].parameter.shape[1]
    assert pool.out_features == order**2
    torch.testing.assert_close(pool(x), direct(pool, x, **options), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-4, 0.01, 100.0, 1e4])
def test_eigenvalues_at_both_published_bounds(scale: float) -> None:
    x, pool = scale * features(2, 30, 8), make()
    expected = direct(pool, x)
    torch.testing.assert_close(pool(x), expected, rtol=1e-9, atol=1e-9)
    outside = {1e-4: np.log(1e-4), 1e4: np.log(1e4)}
    if scale in outside:
        torch.testing.assert_close(expected, outside[scale] * torch.eye(4).double().flatten().expand(2, 16))


def test_the_triangle_is_part_of_the_full_vector() -> None:
    x = features(2, 30, 8)
    whole = make()(x).unflatten(1, (4, 4))
    rows, columns = np.triu_indices(4)
    torch.testing.assert_close(make(vectorization="triangle")(x), whole[:, rows, columns])


def test_identity_weights_give_the_logarithm_of_the_covariance() -> None:
    x, pool = features(1, 30, 6), make(6, dims=(6,), regularizer=0.0)
    with torch.no_grad():
        pool.maps[0].parameter.copy_(torch.eye(6))
    z = pool(x).detach().unflatten(1, (6, 6))[0]
    torch.testing.assert_close(torch.from_numpy(linalg.expm(z.numpy())), torch.from_numpy(np.cov(x[0].numpy().T)))


def test_result_is_the_logarithm_of_a_positive_definite_matrix_between_the_bounds() -> None:
    z = make(dims=(5,))(1e3 * features(2, 3, 8)).unflatten(1, (5, 5))
    values = torch.linalg.eigvalsh(torch.linalg.matrix_exp(z))
    assert (values >= 1e-4 * (1 - 1e-9)).all() and (values <= 1e4 * (1 + 1e-9)).all()


def test_gradients_of_the_bilinear_map() -> None:
    """dl/dSigma = W G W^T and dl/dW = Sigma W (G + G^T) for any G."""
    bilinear = make(manifold="free").maps[0]
    x, g = features(1, 20, 8), features(1, 4, 4, seed=1)
    a = (x.mT @ x).requires_grad_()
    da, dw = torch.autograd.grad(bilinear(a), (a, bilinear.parameter), g)
    w = bilinear.parameter.detach()
    torch.testing.assert_close(da, w @ g @ w.T)
    torch.testing.assert_close(dw, (a.detach() @ w @ (g + g.mT))[0])


@pytest.mark.parametrize("manifold", ["stiefel", "free"])
@pytest.mark.parametrize("n", [3, 30])
def test_gradients_of_features_and_weights(n: int, manifold: str) -> None:
    """Includes a singular covariance, and eigenvalues clipped on both sides."""
    pool, x = make(5, dims=(4, 3), manifold=manifold, bounds=(0.05, 1.3)), features(1, n, 5).requires_grad_()
    # Eigenvalues at the lower bound have a kink, so the features are scaled up a little.
    factor = 1.2 if manifold == "free" else 1.0
    weights = tuple((factor * bilinear.parameter.detach()).requires_grad_() for bilinear in pool.maps)

    def pooled(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return torch.func.functional_call(pool, {"maps.0.parameter": first, "maps.1.parameter": second}, x)

    assert torch.autograd.gradcheck(pooled, (x, *weights), atol=1e-6)


def test_initial_weights_are_orthonormal() -> None:
    for manifold in ("stiefel", "free"):
        w = make(16, manifold=manifold).maps[0].weight
        assert w.shape == (16, 8)
        torch.testing.assert_close(w.T @ w, torch.eye(8, dtype=torch.float64))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_weights_stay_orthonormal_under_any_optimizer_with_weight_decay(optimizer: type[torch.optim.Optimizer]) -> None:
    pool, free = create_pool("spdnet", 8), create_pool("spdnet", 8, manifold="free")
    x, target = features(16, 20, 8, dtype=torch.float32), features(16, 1, 16, dtype=torch.float32, seed=1)[:, 0]
    losses = []
    for model in (pool, free):
        steps = optimizer(model.parameters(), lr=0.05, weight_decay=0.05)
        for _ in range(20):
            loss = (model(x) - target).square().mean()
            steps.zero_grad()
            loss.backward()
            steps.step()
            losses.append(loss.detach())
    assert losses[19] < losses[0]
    gram = [model.maps[0].weight.T @ model.maps[0].weight for model in (pool, free)]
    torch.testing.assert_close(gram[0], torch.eye(4), rtol=0, atol=2e-6)
    assert (gram[1] - torch.eye(4)).abs().max() > 1e-2


@pytest.mark.parametrize("manifold", ["stiefel", "free"])
def test_checkpoints_and_copies(manifold: str) -> None:
    x, options = features(2, 30, 8), {"dims": (6, 4), "manifold": manifold}
    pool = make(**options)
    assert list(pool.state_dict()) == ["maps.0.parameter", "maps.1.parameter"]
    torch.manual_seed(1)
    other = ManifoldPool(8, **options).double()
    assert not torch.allclose(other(x), pool(x))
    other.load_state_dict(pool.state_dict())
    for same in (other, copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        assert torch.equal(same(x), pool(x))


def test_parameter_count_of_the_published_models() -> None:
    assert sum(p.numel() for p in ManifoldPool(256).parameters()) == 256 * 128
    temporal = ManifoldPool(128, dims=(64, 32, 16, 8), regularizer=1e-3)
    assert sum(p.numel() for p in temporal.parameters()) == 128 * 64 + 64 * 32 + 32 * 16 + 16 * 8
    assert ManifoldPool(256).out_features == 16384


@pytest.mark.parametrize("options", [{"dims": (8, 4, 2)}, {"manifold": "free"}, {"vectorization": "triangle"}])
def test_every_option_is_finite_on_hard_cases(options: dict[str, object]) -> None:
    pool = ManifoldPool(16, **options)
    for x in hard_features().values():
        x.requires_grad_()
        z = pool(x)
        grads = torch.autograd.grad(z.square().sum(), (x, *pool.parameters()))
        assert z.isfinite().all() and all(g.isfinite().all() for g in grads)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"dims": ()}, "`dims` must be non-increasing orders"),
        ({"dims": (9,)}, r"at most 8, the number of channels; got \(9,\)"),
        ({"dims": (4, 5)}, "non-increasing"),
        ({"dims": (0,)}, "`dims` must be a positive integer"),
        ({"manifold": "grassmann"}, "`manifold` must be one of"),
        ({"vectorization": "upper"}, "`vectorization` must be one of"),
        ({"bounds": (1.0, 0.5)}, "low=1.0, high=0.5"),
        ({"regularizer": -1.0}, "`regularizer` must be finite and not negative; got -1"),
        ({"regularizer": float("nan")}, "`regularizer` must be a finite number; got nan"),
    ],
)
def test_wrong_options_are_refused(option: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ManifoldPool(8, **option)
