"""covpool.ops.isqrt_covariance: derivatives of every kind and order, and the memory that they need."""

import itertools

import pytest
import torch
from torch import Tensor

from cases import features, hard_features
from covpool.ops import isqrt_covariance, reference
from covpool.ops.isqrt_covariance import IsqrtForm
from covpool.ops.sqrtm_newton_schulz import Prenorm
from ops.oracles import (
    assert_gradient,
    finite_difference,
    gradient,
    randn,
    refuses,
    relative_error,
    saved_floats,
    value_and_gradient,
)

FORMS = ("primal", "dual", "spectral")

every_form = pytest.mark.parametrize("form", FORMS)
every_prenorm = pytest.mark.parametrize("prenorm", ["trace", "frobenius"])
with_and_without_postcomp = pytest.mark.parametrize("postcomp", [True, False])
each_pair_of_options = pytest.mark.parametrize(
    ("n", "prenorm", "postcomp"),
    [(2, "trace", True), (2, "frobenius", False), (5, "trace", False), (5, "frobenius", True)],
)
fewer_as_many_and_more_positions = pytest.mark.parametrize("n", [3, 6, 20])

MASK = torch.tensor([[True, True, False, True, False, True], [False, True, True, False, False, True]])
WEIGHTS = torch.rand(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1


def printed(x: Tensor, iterations: int = 5, prenorm: str = "trace", postcomp: bool = True) -> Tensor:
    """Covariance and iteration as printed, in plain operations that autograd differentiates to any order."""
    xc = x - x.mean(-2, keepdim=True)
    return reference.isqrt_iterated(xc.mT @ xc / x.shape[-2], iterations, prenorm, postcomp)


@every_form
@pytest.mark.parametrize(
    ("iterations", "n", "prenorm", "postcomp"),
    [
        (iterations, (3, 6, 20)[(i + j) % 3], *options)
        for i, iterations in enumerate((1, 2, 3, 5, 7, 10))
        for j, options in enumerate(itertools.product(("trace", "frobenius"), (True, False)))
    ],
)
def test_gradient_is_autograd_of_the_printed_iteration(
    form: IsqrtForm, iterations: int, n: int, prenorm: Prenorm, postcomp: bool
) -> None:
    x = features(2, n, 6)
    _, dx = value_and_gradient(
        lambda x: isqrt_covariance(x, iterations=iterations, prenorm=prenorm, postcomp=postcomp, form=form), x
    )
    _, expected = value_and_gradient(lambda x: printed(x, iterations, prenorm, postcomp), x)
    assert relative_error(dx, expected) <= 1e-11


@every_form
@fewer_as_many_and_more_positions
@every_prenorm
@with_and_without_postcomp
def test_gradient_by_finite_differences(form: IsqrtForm, n: int, prenorm: Prenorm, postcomp: bool) -> None:
    f = lambda x: isqrt_covariance(x, prenorm=prenorm, postcomp=postcomp, form=form)  # noqa: E731
    assert_gradient(f, features(2, n, 6), tol=1e-6)


@every_form
@pytest.mark.parametrize("case", ["constant_channels", "dead_channels", "rank_one", "few_positions"])
def test_gradient_on_hard_features(form: IsqrtForm, case: str) -> None:
    """Repeated and zero eigenvalues, against autograd of the printed iteration."""
    x = hard_features(dtype=torch.float64)[case]
    _, dx = value_and_gradient(lambda x: isqrt_covariance(x, form=form), x)
    _, expected = value_and_gradient(printed, x)
    assert relative_error(dx, expected) <= 1e-10


@every_form
@pytest.mark.parametrize("case", ["zero", "all_constant", "single_position"])
@every_prenorm
@with_and_without_postcomp
def test_no_variance_has_finite_derivatives_of_both_orders(
    form: IsqrtForm, case: str, prenorm: Prenorm, postcomp: bool
) -> None:
    x = hard_features(dtype=torch.float64)[case].requires_grad_()
    z = isqrt_covariance(x, prenorm=prenorm, postcomp=postcomp, form=form)
    (dx,) = torch.autograd.grad(z.sum(), x, create_graph=True)
    (ddx,) = torch.autograd.grad(dx.square().sum() + dx.sum(), x)
    assert dx.isfinite().all()
    assert ddx.isfinite().all()


def test_appendix_one_gradient() -> None:
    x = features(2, 20, 6)
    _, dx = value_and_gradient(isqrt_covariance, x)
    _, expected = value_and_gradient(reference.isqrt_literal, x)
    assert relative_error(dx, expected) <= 1e-11


@every_form
def test_euler_identities(form: IsqrtForm) -> None:
    """Degree one in x: <dl/dx, x> = <G, Z>, and 0 without post-compensation; rows sum to zero by shift invariance."""
    x, g = features(2, 5, 6), randn(2, 6, 6)
    dx = gradient(lambda x: isqrt_covariance(x, form=form), x, g)
    torch.testing.assert_close((dx * x).sum(), (g * isqrt_covariance(x, form=form)).sum())
    assert dx.sum(1).abs().max() <= 1e-13
    bare = gradient(lambda x: isqrt_covariance(x, postcomp=False, form=form), x, g)
    assert abs(float((bare * x).sum())) <= 1e-12


@every_form
def test_upstream_gradient_counts_by_its_symmetric_part(form: IsqrtForm) -> None:
    x, g = features(2, 5, 6), randn(2, 6, 6)
    f = lambda x: isqrt_covariance(x, form=form)  # noqa: E731
    torch.testing.assert_close(gradient(f, x, g), gradient(f, x, (g + g.mT) / 2))
    torch.testing.assert_close(gradient(f, x, g), gradient(f, x, g.triu() + g.tril(-1).mT))


# --- masks and weights ----------------------------------------------------------------------------


@every_form
@every_prenorm
def test_gradient_under_a_mask_equals_that_of_the_slice(form: IsqrtForm, prenorm: Prenorm) -> None:
    x, g = features(2, 6, 4), randn(2, 4, 4)
    poisoned = torch.where(MASK[..., None], x, torch.nan)
    dx = gradient(lambda x: isqrt_covariance(x, mask=MASK, prenorm=prenorm, form=form), poisoned, g)
    for i in range(2):
        expected = gradient(lambda x: isqrt_covariance(x, prenorm=prenorm, form=form), x[i, MASK[i]], g[i])
        torch.testing.assert_close(dx[i, MASK[i]], expected)
        assert torch.equal(dx[i, ~MASK[i]], torch.zeros_like(x[i, ~MASK[i]]))


@every_form
@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "masked"])
def test_gradient_with_weights(form: IsqrtForm, mask: Tensor | None) -> None:
    weights = WEIGHTS.clone()
    weights[0, 1] = 0
    assert_gradient(lambda x: isqrt_covariance(x, weights=weights, mask=mask, form=form), features(2, 6, 4))


@pytest.mark.parametrize("form", ["auto", "primal"])
@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "masked"])
def test_gradient_in_the_weights(form: IsqrtForm, mask: Tensor | None) -> None:
    x = features(2, 6, 4)
    assert_gradient(lambda w: isqrt_covariance(x, mask=mask, weights=w, form=form), WEIGHTS)


def test_gradient_in_a_weight_that_is_zero() -> None:
    x, weights = features(2, 6, 4), WEIGHTS.clone()
    weights[0, 1] = 0
    # Inside vmap, weights are not checked: differences also take a small step below zero.
    mapped = torch.vmap(lambda x, w: isqrt_covariance(x, weights=w, form="primal"))
    assert_gradient(lambda w: mapped(x, w), weights)


def test_forward_derivative_in_the_weights() -> None:
    x = features(2, 6, 4)
    _, dz = torch.func.jvp(lambda w: isqrt_covariance(x, weights=w, form="primal"), (WEIGHTS,), (WEIGHTS.cos(),))
    expected = finite_difference(lambda w: isqrt_covariance(x, weights=w, form="primal"), WEIGHTS, WEIGHTS.cos())
    assert relative_error(dz, expected) <= 1e-7


@pytest.mark.parametrize("form", ["auto", "dual", "spectral"])
def test_a_derivative_in_the_weights_is_never_silently_dropped(form: IsqrtForm) -> None:
    """In forward mode and inside vmap, requires_grad is not visible, so the other forms raise an error."""
    x = features(2, 6, 4)
    with refuses(RuntimeError, "no derivative in the weights", "primal"):
        torch.func.jvp(lambda w: isqrt_covariance(x, weights=w, form=form), (WEIGHTS,), (WEIGHTS,))
    with refuses(RuntimeError, "no derivative in the weights", "primal"):
        mapped = torch.vmap(lambda x, w: isqrt_covariance(x, weights=w, form=form))
        torch.func.grad(lambda w: mapped(x, w).sum())(WEIGHTS)


# --- transforms -----------------------------------------------------------------------------------


@every_form
@each_pair_of_options
def test_derivatives_of_every_kind(form: IsqrtForm, n: int, prenorm: Prenorm, postcomp: bool) -> None:
    x = features(2, n, 3).requires_grad_()
    f = lambda x: isqrt_covariance(x, iterations=3, prenorm=prenorm, postcomp=postcomp, form=form)  # noqa: E731
    assert torch.autograd.gradcheck(f, x, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, x, check_fwd_over_rev=True)


@every_form
@each_pair_of_options
def test_hessian_is_that_of_the_printed_iteration(form: IsqrtForm, n: int, prenorm: Prenorm, postcomp: bool) -> None:
    x, g = features(1, n, 3)[0], randn(3, 3)
    options = {"prenorm": prenorm, "postcomp": postcomp}
    hessian = torch.func.hessian(lambda x: (g * isqrt_covariance(x, form=form, **options)).sum())(x)
    expected = torch.func.hessian(lambda x: (g * printed(x, **options)).sum())(x)
    assert relative_error(hessian, expected) <= 1e-10


@every_form
def test_gradient_penalty(form: IsqrtForm) -> None:
    """Differentiate |gradient|^2, as a gradient penalty does."""

    def penalty(f: object, x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        (dx,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)  # type: ignore[operator]
        return torch.autograd.grad(dx.square().sum(), x)[0]

    x = features(2, 5, 8)
    expected = penalty(printed, x)
    assert relative_error(penalty(lambda x: isqrt_covariance(x, form=form), x), expected) <= 1e-10


# --- memory and compilation -----------------------------------------------------------------------


@every_form
@every_prenorm
@pytest.mark.parametrize("n", [49, 196, 784])
def test_at_most_two_matrices_per_item_are_saved(form: IsqrtForm, n: int, prenorm: Prenorm) -> None:
    """At most 2 b d^2 numbers are kept besides the input."""
    b, d = 2, 64
    x = features(b, n, d, dtype=torch.float32)
    assert saved_floats(lambda x: isqrt_covariance(x, prenorm=prenorm, form=form), x) <= 2 * b * d * d


def test_the_measure_of_saved_memory_sees_stored_iterates() -> None:
    x = features(2, 49, 64, dtype=torch.float32)
    assert saved_floats(reference.isqrt_literal, x) > 8 * 2 * 64 * 64


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("primal", {"prenorm": "frobenius", "mask": MASK}),
        ("primal", {"weights": WEIGHTS}),
        ("dual", {"prenorm": "frobenius", "mask": MASK, "weights": WEIGHTS}),
        ("spectral", {"prenorm": "frobenius", "mask": MASK, "weights": WEIGHTS}),
    ],
)
def test_compiles_with_every_option(form: IsqrtForm, options: dict[str, Tensor]) -> None:
    torch.compiler.reset()
    f = lambda x: isqrt_covariance(x, form=form, **options)  # type: ignore[arg-type]  # noqa: E731
    x = features(2, 6, 4)
    z, dx = value_and_gradient(f, x)
    compiled, compiled_dx = value_and_gradient(torch.compile(f, fullgraph=True, backend="aot_eager"), x)
    assert relative_error(compiled, z) <= 1e-12
    assert relative_error(compiled_dx, dx) <= 1e-11
