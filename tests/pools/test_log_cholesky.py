"""The log-Cholesky pool against numpy's factor, in float64."""

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import features, hard_features
from covpool import create_pool


def direct(x: Tensor, diagonal: float, e: float, relative: bool) -> Tensor:
    """Return the columns of the lower triangle of the factor, with the logarithm of the diagonal."""
    vectors = []
    for item in x.numpy():
        sigma = np.cov(item.T, bias=True)
        scale = np.trace(sigma) / len(sigma) if relative else 1
        factor = np.linalg.cholesky(sigma + e * scale * np.eye(len(sigma)))
        columns = [[diagonal * np.log(factor[j, j]), *factor[j + 1 :, j]] for j in range(len(factor))]
        vectors.append(np.concatenate(columns))
    return torch.from_numpy(np.stack(vectors))


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize(("form", "diagonal"), [("tangent", 2.0), ("coordinates", 1.0)])
@pytest.mark.parametrize("n", [4, 30])
def test_equals_numpys_factor(n: int, form: str, diagonal: float, relative: bool) -> None:
    x = features(2, n, 6)
    pool = create_pool("log_cholesky", 6, form=form, relative=relative)
    torch.testing.assert_close(pool(x), direct(x, diagonal, 1e-6, relative), rtol=1e-7, atol=1e-7)


def test_float32_features_are_pooled_in_float64() -> None:
    x = features(2, 5, 16, dtype=torch.float32)
    pool = create_pool("log_cholesky", 16)
    assert torch.equal(pool(x), pool(x.double()).float())


@pytest.mark.parametrize("n", [2, 7])
def test_gradient(n: int) -> None:
    x = features(1, n, 4).requires_grad_()
    assert torch.autograd.gradcheck(create_pool("log_cholesky", 4, eps=1e-2), x)


def test_scaling_the_features() -> None:
    x = features(2, 5, 4)
    pool = create_pool("log_cholesky", 4, form="coordinates")
    rows, columns = np.triu_indices(4)
    shift = torch.from_numpy(np.where(rows == columns, np.log(3), 0))
    factor = torch.from_numpy(np.where(rows == columns, 1.0, 3.0))
    torch.testing.assert_close(pool(3 * x), pool(x) * factor + shift)


def test_a_zero_map_is_the_logarithm_of_eps() -> None:
    z = create_pool("log_cholesky", 3)(torch.zeros(2, 5, 3))
    torch.testing.assert_close(z[:, [0, 3, 5]], torch.full((2, 3), np.log(1e-6)))
    assert not z[:, [1, 2, 4]].any()


def test_weights_of_zero_give_zeros() -> None:
    assert not create_pool("log_cholesky", 3)(features(2, 5, 3), weights=torch.zeros(2, 5)).any()


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("form", ["tangent", "coordinates"])
def test_every_option_is_finite_on_hard_cases(form: str, relative: bool) -> None:
    pool = create_pool("log_cholesky", 16, form=form, relative=relative)
    for x in hard_features().values():
        x.requires_grad_()
        z = pool(x)
        (dx,) = torch.autograd.grad(z.sum(), x)
        assert z.isfinite().all() and dx.isfinite().all()


@pytest.mark.parametrize("option", [{"form": "log"}, {"eps": 0.0}])
def test_wrong_options_are_refused_when_the_pool_is_built(option: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(option))}` must be"):
        create_pool("log_cholesky", 4, **option)
