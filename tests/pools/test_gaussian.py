import numpy
import pytest
import torch
from scipy import linalg
from torch import Tensor

from cases import features, hard_features
from covpool import create_pool
from covpool.ops import unvech

EPS = 1e-3


def moments(x: Tensor) -> numpy.ndarray:
    """Y = [[Sigma + mu mu^T, mu], [mu^T, 1]] of features (n, c)."""
    values = x.numpy()
    mu, sigma = values.mean(0), numpy.cov(values.T, bias=True)
    return numpy.block([[sigma + numpy.outer(mu, mu), mu[:, None]], [mu[None], numpy.ones((1, 1))]])


def upper(a: numpy.ndarray) -> numpy.ndarray:
    return a[numpy.triu_indices(a.shape[0])]


def embedded(kind: str, x: Tensor) -> numpy.ndarray:
    """Compute the embedding of features (n, c) as a vector with scipy."""
    y, c = moments(x), x.shape[-1]
    positive = y + EPS * numpy.eye(c + 1)
    if kind == "nakayama":
        return numpy.concatenate((upper(y[:c, :c]), y[:c, c]))
    if kind == "cholesky":
        sigma = y[:c, :c] - numpy.outer(y[:c, c], y[:c, c])
        lower = linalg.cholesky(sigma + EPS * numpy.eye(c), lower=True)
        return numpy.concatenate((upper(lower.T), y[:c, c]))
    matrix = {
        "sqrt": lambda: linalg.sqrtm(positive),
        "calvo": lambda: y,
        "lovric": lambda: positive / linalg.det(positive) ** (1 / (c + 1)),
        "log": lambda: linalg.logm(positive),
    }[kind]()
    return upper(matrix)


@pytest.mark.parametrize("kind", ["sqrt", "calvo", "lovric", "nakayama", "log", "cholesky"])
def test_every_embedding_equals_its_formula(kind: str) -> None:
    x = features(2, 30, 5)
    pool = create_pool("gaussian", 5, kind=kind)
    z = pool(x)
    expected = torch.from_numpy(numpy.stack([embedded(kind, item) for item in x]))
    assert z.shape == (2, pool.out_features)
    torch.testing.assert_close(z, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", ["sqrt", "calvo", "lovric", "nakayama", "log", "cholesky"])
def test_every_embedding_is_differentiable_with_fewer_positions_than_channels(kind: str) -> None:
    pool = create_pool("gaussian", 4, kind=kind, eps=0.1)
    assert torch.autograd.gradcheck(pool, features(1, 3, 4).requires_grad_())


@pytest.mark.parametrize(
    "options",
    [{"kind": kind} for kind in ("calvo", "lovric", "nakayama", "log", "cholesky")] + [{"solver": "newton_schulz"}],
)
def test_every_option_is_finite_on_hard_cases(options: dict[str, str]) -> None:
    for x in hard_features().values():
        x.requires_grad_()
        z = create_pool("gaussian", 16, **options)(x)
        (dx,) = torch.autograd.grad(z.sum(), x)
        assert z.isfinite().all() and dx.isfinite().all()


def test_sizes() -> None:
    assert create_pool("gaussian", 256).out_features == 33153
    assert create_pool("gaussian", 256, kind="nakayama").out_features == 33152
    assert create_pool("gaussian", 256, kind="cholesky").out_features == 33152


def test_zero_mean_without_eps_gives_the_root_of_the_covariance_and_one() -> None:
    x = features(2, 30, 4)
    x = x - x.mean(1, keepdim=True)
    z = unvech(create_pool("gaussian", 4, eps=0.0)(x))
    torch.testing.assert_close(z[:, :4, :4], unvech(create_pool("mpn", 4)(x)))
    corner = torch.tensor([0, 0, 0, 0, 1], dtype=torch.float64).expand(2, -1)
    torch.testing.assert_close(z[:, -1], corner)


def test_closed_form_of_one_channel() -> None:
    x = features(3, 20, 1)
    m, s = x.mean(1), x.var(1, correction=0)
    y = torch.cat((s + m**2, m, torch.ones_like(m)), 1)
    root = s.sqrt()
    expected = (y + root * torch.tensor([1.0, 0.0, 1.0])) / (s + m**2 + 1 + 2 * root).sqrt()
    torch.testing.assert_close(create_pool("gaussian", 1, eps=0.0)(x), expected)


def test_newton_schulz_converges_to_the_exact_root() -> None:
    x = features(2, 30, 4)
    iterated = create_pool("gaussian", 4, solver="newton_schulz", iterations=18)(x)
    torch.testing.assert_close(iterated, create_pool("gaussian", 4)(x))
    assert not torch.allclose(create_pool("gaussian", 4, solver="newton_schulz", iterations=2)(x), iterated)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"kind": "choleski"}, "`kind` must be one of.*did you mean 'cholesky'"),
        ({"solver": "svd"}, "`solver` must be one of"),
        ({"eps": -1.0}, "`eps` must be finite and not negative; got -1.0"),
    ],
)
def test_wrong_options_are_refused_when_the_pool_is_built(option: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_pool("gaussian", 4, **option)
