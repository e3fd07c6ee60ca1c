"""covpool.ops.gaussian_embedding against the formulas of its embeddings."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import features
from covpool.ops import covariance, gaussian_embedding
from covpool.ops.gaussian_embedding import EMBEDDING_KINDS, EmbeddingKind
from ops import reference
from ops.oracles import assert_gradient, gradient, randn, refuses, relative_error, value_and_gradient

MASK = torch.tensor([[True, True, False, True, False, True], [False, True, True, False, False, True]])
WEIGHTS = torch.rand(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1

every_kind = pytest.mark.parametrize("kind", EMBEDDING_KINDS)
fewer_and_more_positions = pytest.mark.parametrize("n", [1, 3, 12])


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of one item (n, c)."""
    return x.mean(0), reference.covariance(x)


def calvo(mean: Tensor, sigma: Tensor) -> Tensor:
    """[[Sigma + mu mu^T, mu], [mu^T, 1]], block by block."""
    top = torch.cat((sigma + torch.outer(mean, mean), mean[:, None]), 1)
    return torch.cat((top, torch.cat((mean, torch.ones(1, dtype=mean.dtype)))[None]))


@fewer_and_more_positions
def test_calvo_is_the_matrix_partition(n: int) -> None:
    x = features(1, n, 4)
    torch.testing.assert_close(gaussian_embedding(x, kind="calvo")[0], calvo(*moments(x[0])))


def test_backward_of_the_matrix_partition() -> None:
    """dl/dX = (2 / M) A^T sym(dl/dY) (A X + b 1^T)."""
    x, g = features(2, 7, 4), randn(2, 5, 5)
    extended = torch.cat((x, torch.ones(2, 7, 1).double()), -1)
    expected = (extended @ (g + g.mT))[..., :4] / 7
    torch.testing.assert_close(gradient(lambda x: gaussian_embedding(x, kind="calvo"), x, g), expected)


def test_determinants_are_equal() -> None:
    x = features(2, 12, 4)
    torch.testing.assert_close(
        torch.linalg.det(gaussian_embedding(x, kind="calvo")), torch.linalg.det(covariance(x)), rtol=1e-10, atol=0
    )


@fewer_and_more_positions
def test_square_root_multiplies_back(n: int) -> None:
    x = features(1, n, 4)
    z = gaussian_embedding(x)[0]
    torch.testing.assert_close(z @ z, calvo(*moments(x[0])) + 1e-3 * torch.eye(5).double())


def test_polar_identity() -> None:
    """With Sigma^-1 = L L^T, H = [[L^-T, mu], [0, 1]] = S Q has the polar factor S = Y^(1/2)."""
    x = features(1, 12, 4)
    mean, sigma = moments(x[0])
    lower = np.linalg.cholesky(np.linalg.inv(sigma.numpy()))
    h = np.block([[np.linalg.inv(lower).T, mean.numpy()[:, None]], [np.zeros((1, 4)), np.ones((1, 1))]])
    u, s, _ = np.linalg.svd(h)
    polar = torch.from_numpy(u @ np.diag(s) @ u.T)
    assert relative_error(gaussian_embedding(x, eps=0.0)[0], polar) <= 1e-12


def test_zero_mean_splits_into_blocks() -> None:
    x = features(1, 12, 4)
    x = x - x.mean(1, keepdim=True)
    expected = torch.block_diag(reference.power(reference.covariance(x[0]), 0.5), torch.ones(1, 1).double())
    torch.testing.assert_close(gaussian_embedding(x, eps=0.0)[0], expected)


def test_one_channel_in_closed_form() -> None:
    """Y^(1/2) = (Y + sqrt(s) I) / sqrt(s + m^2 + 1 + 2 sqrt(s)), s the variance."""
    x = features(1, 9, 1) + 2
    s, m = float(x.var(correction=0)), float(x.mean())
    y = torch.tensor([[s + m * m, m], [m, 1.0]], dtype=torch.float64)
    expected = (y + math.sqrt(s) * torch.eye(2).double()) / math.sqrt(s + m * m + 1 + 2 * math.sqrt(s))
    torch.testing.assert_close(gaussian_embedding(x, eps=0.0)[0], expected)


@pytest.mark.parametrize("iterations", [1, 5, 25])
def test_newton_schulz_solver(iterations: int) -> None:
    x = features(1, 12, 4)
    y = calvo(*moments(x[0])) + 1e-3 * torch.eye(5).double()
    z = gaussian_embedding(x, solver="newton_schulz", iterations=iterations)[0]
    assert relative_error(z, reference.isqrt_spectral(y, iterations)) <= 1e-12
    if iterations == 25:
        assert relative_error(z, gaussian_embedding(x)[0]) <= 1e-10


@fewer_and_more_positions
def test_lovric_has_determinant_one(n: int) -> None:
    z = gaussian_embedding(features(2, n, 4), kind="lovric")
    torch.testing.assert_close(torch.linalg.det(z), torch.ones(2).double(), rtol=1e-9, atol=0)


def test_lovric_of_a_positive_definite_gaussian() -> None:
    """The embedding is det(Sigma)^(-1 / (d + 1)) Y."""
    x = features(2, 12, 4)
    scale = torch.linalg.det(covariance(x)) ** (-1 / 5)
    expected = scale[:, None, None] * gaussian_embedding(x, kind="calvo")
    torch.testing.assert_close(gaussian_embedding(x, kind="lovric", eps=0.0), expected)


@fewer_and_more_positions
def test_exponential_of_the_logarithm(n: int) -> None:
    x = features(1, n, 4)
    expected = calvo(*moments(x[0])) + 1e-3 * torch.eye(5).double()
    assert relative_error(torch.matrix_exp(gaussian_embedding(x, kind="log")[0]), expected) <= 1e-12


@fewer_and_more_positions
def test_cholesky_factor_times_its_transpose_is_calvo(n: int) -> None:
    x = features(1, n, 4)
    mean, sigma = moments(x[0])
    h = gaussian_embedding(x, kind="cholesky")[0]
    assert torch.equal(h[:-1, :-1].triu(1), torch.zeros(4, 4).double())
    torch.testing.assert_close(h @ h.T, calvo(mean, sigma + 1e-3 * torch.eye(4).double()))


def test_nakayama_of_one_position() -> None:
    """The embedding of one position x is vec(x x^T) and x."""
    x = features(1, 1, 4)
    z = gaussian_embedding(x, kind="nakayama")[0]
    torch.testing.assert_close(z[:, :4], torch.outer(x[0, 0], x[0, 0]))
    torch.testing.assert_close(z[:, 4], x[0, 0])


@every_kind
def test_shapes(kind: EmbeddingKind) -> None:
    shape = (4, 5) if kind == "nakayama" else (5, 5)
    assert gaussian_embedding(features(2, 6, 4), kind=kind).shape == (2, *shape)


@every_kind
@pytest.mark.parametrize("n", [3, 12])
def test_gradient_by_finite_differences(kind: EmbeddingKind, n: int) -> None:
    assert_gradient(lambda x: gaussian_embedding(x, kind=kind), features(2, n, 4), tol=1e-6)


@every_kind
def test_gradcheck_forward_and_batched(kind: EmbeddingKind) -> None:
    x = features(1, 3, 2).requires_grad_()
    f = lambda x: gaussian_embedding(x, kind=kind)  # noqa: E731
    assert torch.autograd.gradcheck(f, x, check_forward_ad=True, check_batched_grad=True)


@pytest.mark.parametrize("kind", ["calvo", "nakayama", "cholesky"])
def test_second_derivatives(kind: EmbeddingKind) -> None:
    assert torch.autograd.gradgradcheck(lambda x: gaussian_embedding(x, kind=kind), features(1, 4, 2).requires_grad_())
    newton_schulz = lambda x: gaussian_embedding(x, solver="newton_schulz")  # noqa: E731
    assert torch.autograd.gradgradcheck(newton_schulz, features(1, 4, 2).requires_grad_())


@every_kind
def test_mask_equals_slicing(kind: EmbeddingKind) -> None:
    x = features(2, 6, 3)
    f = lambda x: gaussian_embedding(x, kind=kind, mask=MASK)  # noqa: E731
    z, dx = value_and_gradient(f, torch.where(MASK[..., None], x, torch.nan))
    assert torch.equal(dx[~MASK], torch.zeros_like(dx[~MASK]))
    for i in range(2):
        torch.testing.assert_close(z[i], gaussian_embedding(x[i, MASK[i]], kind=kind))


@every_kind
def test_empty_mask_gives_zeros_with_finite_gradients(kind: EmbeddingKind) -> None:
    mask = MASK.clone()
    mask[1] = False
    x = features(2, 6, 3, dtype=torch.float32)
    z, dx = value_and_gradient(lambda x: gaussian_embedding(x, kind=kind, mask=mask), x)
    assert torch.equal(z[1], torch.zeros_like(z[1]))
    assert z[0].any()
    assert torch.equal(dx[1], torch.zeros_like(dx[1]))


@every_kind
def test_weights(kind: EmbeddingKind) -> None:
    """Integer weights give the result of repeated positions, and the weights have a gradient."""
    x, counts = features(1, 4, 3), torch.tensor([[1.0, 3, 0, 2]]).double()
    repeated = gaussian_embedding(x[:, [0, 1, 1, 1, 3, 3]], kind=kind)
    torch.testing.assert_close(gaussian_embedding(x, kind=kind, weights=counts), repeated)
    assert_gradient(lambda w: gaussian_embedding(features(2, 6, 3), kind=kind, weights=w), WEIGHTS)


@pytest.mark.parametrize("options", [{}, {"mask": MASK}, {"weights": WEIGHTS}], ids=["all", "mask", "weights"])
@pytest.mark.parametrize("c", [3, 9])
def test_the_dual_form_is_the_primal_one(c: int, options: dict[str, Tensor]) -> None:
    x = features(2, 6, c)
    for form in ("primal", "dual"):
        assert_gradient(lambda x, form=form: gaussian_embedding(x, form=form, **options), x)
    primal = gaussian_embedding(x, form="primal", **options)
    torch.testing.assert_close(gaussian_embedding(x, form="dual", **options), primal)
    torch.testing.assert_close(gaussian_embedding(x, **options), primal)


@pytest.mark.parametrize(("form", "largest"), [("primal", 1e-4), ("dual", 1e-5)])
def test_eigenvalues_at_eps_stay_accurate_in_float32(form: str, largest: float) -> None:
    x = features(1, 49, 128)
    exact = value_and_gradient(lambda x: gaussian_embedding(x, form="primal"), x)
    ours = value_and_gradient(lambda x: gaussian_embedding(x, form=form), x.float())  # type: ignore[arg-type]
    for value, expected in zip(ours, exact, strict=True):
        assert relative_error(value, expected) <= largest


def test_cholesky_of_half_precision_features_of_the_largest_size() -> None:
    x = (features(2, 5, 16).sign() * 6e4).half()
    z = gaussian_embedding(x, kind="cholesky")
    assert z.dtype == torch.float32
    assert z.isfinite().all()


def test_the_form_is_the_smaller_one_unless_it_is_given() -> None:
    """The forms differ in their round-off."""
    for n, smaller, other in ((5, "dual", "primal"), (40, "primal", "dual")):
        x = features(1, n, 16, dtype=torch.float32)
        assert torch.equal(gaussian_embedding(x), gaussian_embedding(x, form=smaller))
        assert not torch.equal(gaussian_embedding(x), gaussian_embedding(x, form=other))


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("c", [64, 256])
def test_cholesky_of_a_singular_covariance_without_eps(c: int, scale: float) -> None:
    x = scale * features(3, 40, c)
    z = gaussian_embedding(x, kind="cholesky", eps=0.0)[:, :-1, :-1]
    assert z.isfinite().all()
    assert relative_error(z @ z.mT, covariance(x)) <= 1e-10


def test_refusals_name_what_came() -> None:
    x = features(2, 6, 3)
    with refuses(ValueError, "`x`", "(..., n, c)", "(3,)"):
        gaussian_embedding(torch.ones(3))
    with refuses(ValueError, "`kind`", "'calvo'", "'calva'", "did you mean 'calvo'"):
        gaussian_embedding(x, kind="calva")  # type: ignore[arg-type]
    with refuses(ValueError, "`solver`", "'svd'"):
        gaussian_embedding(x, solver="svd")  # type: ignore[arg-type]
    with refuses(ValueError, "`eps`", "negative", "-1"):
        gaussian_embedding(x, eps=-1)
    with refuses(ValueError, "`form`", "kind 'sqrt'", "'log'"):
        gaussian_embedding(x, kind="log", form="dual")
    with refuses(ValueError, "`iterations`", "positive integer", "0"):
        gaussian_embedding(x, solver="newton_schulz", iterations=0)
    with refuses(ValueError, "`mask`", "(2, 6)", "(2, 5)"):
        gaussian_embedding(x, mask=MASK[:, :5])
