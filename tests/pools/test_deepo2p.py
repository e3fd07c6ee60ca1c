"""Log-Euclidean pooling against scipy, in float64."""

import numpy as np
import pytest
import torch
from scipy import linalg
from torch import Tensor

from cases import features, hard_features
from covpool import create_pool
from covpool.ops import unvech
from covpool.pools import LogEuclideanPool

EPS = 1e-3


def logarithm(x: Tensor, divisor: float) -> Tensor:
    """log(F^T F / divisor + eps I) of each image, by scipy."""
    matrices = [linalg.logm(f.T @ f / divisor + EPS * np.eye(f.shape[1])) for f in x.numpy()]
    return torch.from_numpy(np.real(np.stack(matrices)))


def matrix(pool: LogEuclideanPool, x: Tensor) -> Tensor:
    z = pool(x)
    return unvech(z) if pool.vectorization == "triangle" else z.unflatten(1, (x.shape[2], x.shape[2]))


@pytest.mark.parametrize(("scale", "divisor"), [("none", 1), ("mean", 30), ("released", 900)])
@pytest.mark.parametrize("vectorization", ["full", "triangle"])
def test_equals_scipys_logarithm_at_every_scale(scale: str, divisor: float, vectorization: str) -> None:
    x = features(2, 30, 6) + 1
    pool = create_pool("deepo2p", 6, scale=scale, vectorization=vectorization)
    assert pool.out_features == (36 if vectorization == "full" else 21)
    torch.testing.assert_close(matrix(pool, x), logarithm(x, divisor), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("scale", ["none", "released"])
def test_scale_uses_the_number_of_kept_positions(scale: str) -> None:
    x, mask = features(2, 9, 4), torch.arange(9).expand(2, 9) < 5
    pool = create_pool("deepo2p", 4, scale=scale)
    torch.testing.assert_close(pool(x, mask=mask), pool(x[:, :5]))
    torch.testing.assert_close(pool(x, weights=3 * mask.double()), pool(x[:, :5]))


def test_orthonormal_columns() -> None:
    q = torch.linalg.qr(features(2, 9, 4)).Q
    z = matrix(create_pool("deepo2p", 4, scale="none"), q)
    torch.testing.assert_close(z, np.log(1 + EPS) * torch.eye(4, dtype=torch.float64).expand(2, 4, 4))


@pytest.mark.parametrize("n", [3, 30])
def test_exponential_recovers_the_moment(n: int) -> None:
    x = features(1, n, 6)
    z = matrix(create_pool("deepo2p", 6, scale="none"), x)[0]
    moment = torch.from_numpy(linalg.expm(z.numpy())) - EPS * torch.eye(6, dtype=torch.float64)
    torch.testing.assert_close(moment, x[0].T @ x[0], rtol=1e-9, atol=1e-10)


def test_rotation_of_positions_and_of_channels() -> None:
    x, pool = features(2, 9, 5), create_pool("deepo2p", 5)
    over_positions, over_channels = torch.linalg.qr(features(1, 9, 9, seed=1)).Q, torch.linalg.qr(features(1, 5, 5)).Q
    torch.testing.assert_close(pool(over_positions @ x), pool(x))
    rotated = over_channels.mT @ matrix(pool, x) @ over_channels
    torch.testing.assert_close(matrix(pool, x @ over_channels), rotated)


def test_limit_of_powers() -> None:
    """(A^alpha - I) / alpha -> log(A) as alpha -> 0, A = moment + eps I."""
    x, alpha = features(1, 30, 4), 1e-7
    a = (x[0].T @ x[0]).numpy() / 30 + EPS * np.eye(4)
    power = (linalg.fractional_matrix_power(a, alpha) - np.eye(4)) / alpha
    torch.testing.assert_close(matrix(create_pool("deepo2p", 4), x)[0], torch.from_numpy(power), rtol=0, atol=1e-5)


@pytest.mark.parametrize("n", [1, 4, 6, 30])
def test_gradient_of_regular_and_singular_moments(n: int) -> None:
    assert torch.autograd.gradcheck(create_pool("deepo2p", 6), features(1, n, 6).requires_grad_(), atol=1e-6)


def test_gradient_of_the_features_follows_from_that_of_the_moment() -> None:
    """dl/dF = 2 F D, where D = L(A, G) is scipy's self-adjoint derivative of the logarithm."""
    x, g = features(1, 12, 4).requires_grad_(), features(1, 4, 4, seed=1)
    (dx,) = torch.autograd.grad(create_pool("deepo2p", 4, scale="none")(x), x, g.flatten(1))
    f = x.detach()[0].numpy()
    a, s = f.T @ f + EPS * np.eye(4), (g[0] + g[0].T).numpy() / 2
    step = 1e-6
    d = np.real(linalg.logm(a + step * s) - linalg.logm(a - step * s)) / (2 * step)
    torch.testing.assert_close(dx[0], torch.from_numpy(2 * f @ d), rtol=1e-6, atol=1e-7)


def test_the_released_gradient_is_exact_only_with_enough_positions() -> None:
    def cosine(n: int) -> float:
        x, g = features(1, n, 10), features(1, 1, 100, seed=1)[0]
        grads = []
        for mode in ("exact", "released"):
            leaf = x.clone().requires_grad_()
            grads.append(torch.autograd.grad(create_pool("deepo2p", 10, null_gradient=mode)(leaf), leaf, g)[0])
        return float(torch.nn.functional.cosine_similarity(*(d.flatten() for d in grads), dim=0))

    assert cosine(6) < 0.5
    assert cosine(30) == pytest.approx(1, abs=1e-12)


def test_float32_of_few_positions_is_as_accurate_as_the_features() -> None:
    """In float32, zero eigenvalues become 1e-6 l_1, which is comparable with eps."""
    x = features(2, 49, 128, dtype=torch.float32).relu() * 5
    pool = create_pool("deepo2p", 128)
    torch.testing.assert_close(pool(x).double(), pool(x.double()), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("scale", ["none", "mean", "released"])
@pytest.mark.parametrize("null_gradient", ["exact", "released"])
def test_every_option_is_finite_on_hard_cases(scale: str, null_gradient: str) -> None:
    for x in hard_features().values():
        x.requires_grad_()
        z = create_pool("deepo2p", 16, scale=scale, null_gradient=null_gradient)(x)
        (dx,) = torch.autograd.grad(z.sum(), x)
        assert z.isfinite().all() and dx.isfinite().all()


@pytest.mark.parametrize(
    ("option", "value"),
    [("scale", "sum"), ("vectorization", "upper"), ("null_gradient", "none"), ("eps", 0.0), ("eps", float("nan"))],
)
def test_wrong_options_are_refused(option: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"`{option}` must be"):
        create_pool("deepo2p", 4, **{option: value})
