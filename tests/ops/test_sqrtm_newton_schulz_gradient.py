"""covpool.ops.sqrtm_newton_schulz: derivatives of every kind and order, and the memory they need."""

import pytest
import torch

from cases import features, hard_matrices, spd
from covpool.ops import covariance, reference, sqrtm_newton_schulz
from covpool.ops.elementary import symmetrize
from covpool.ops.sqrtm_newton_schulz import Prenorm
from ops.oracles import assert_gradient, gradient, randn, relative_error, saved_floats, value_and_gradient

A = hard_matrices()["distinct"]
SINGULAR = spd(3.0, 1.0, 1.0, 0.2, 0.0, 0.0)

COUNTS = (1, 2, 3, 5, 7, 10)

every_count = pytest.mark.parametrize("iterations", COUNTS)
every_prenorm = pytest.mark.parametrize("prenorm", ["trace", "frobenius"])
with_and_without_postcomp = pytest.mark.parametrize("postcomp", [True, False])


@pytest.mark.parametrize(
    ("name", "iterations", "prenorm", "postcomp"),
    [
        (name, iterations, prenorm, (i + j + k) % 2 == 0)
        for i, name in enumerate([*hard_matrices(), "singular"])
        for j, iterations in enumerate(COUNTS)
        for k, prenorm in enumerate(("trace", "frobenius"))
    ],
)
def test_gradient_on_hard_spectra(name: str, iterations: int, prenorm: Prenorm, postcomp: bool) -> None:
    """Against autograd of the iteration as printed, for an upstream gradient that is not symmetric."""
    a = {**hard_matrices(), "singular": SINGULAR}[name]
    options = (iterations, prenorm, postcomp)
    _, da = value_and_gradient(
        lambda a: sqrtm_newton_schulz(a, iterations=iterations, prenorm=prenorm, postcomp=postcomp), a
    )
    _, expected = value_and_gradient(lambda a: reference.isqrt_iterated(symmetrize(a), *options), a)
    assert float((da - expected).abs().max()) <= 1e-10 * max(1.0, float(expected.abs().max()))


@every_prenorm
@with_and_without_postcomp
def test_gradient_by_finite_differences(prenorm: Prenorm, postcomp: bool) -> None:
    for a in (A, SINGULAR, hard_matrices()["repeated"]):
        assert_gradient(lambda a: sqrtm_newton_schulz(a, prenorm=prenorm, postcomp=postcomp), a)


@pytest.mark.parametrize(
    ("iterations", "prenorm", "postcomp"),
    [(1, "trace", True), (1, "frobenius", False), (3, "trace", False), (3, "frobenius", True)],
)
def test_derivatives_of_every_kind(iterations: int, prenorm: Prenorm, postcomp: bool) -> None:
    a = torch.stack([spd(1.0, 0.4, 0.1), spd(2.0, 1.0, 0.0, seed=1)]).requires_grad_()
    f = lambda a: sqrtm_newton_schulz(a, iterations=iterations, prenorm=prenorm, postcomp=postcomp)  # noqa: E731
    assert torch.autograd.gradcheck(f, a, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, a, check_fwd_over_rev=True)


@every_prenorm
@with_and_without_postcomp
def test_hessian_is_that_of_the_printed_iteration(prenorm: Prenorm, postcomp: bool) -> None:
    a, g = spd(1.0, 0.4, 0.1), randn(3, 3)
    hessian = torch.func.hessian(lambda a: (g * sqrtm_newton_schulz(a, prenorm=prenorm, postcomp=postcomp)).sum())(a)
    expected = torch.func.hessian(lambda a: (g * reference.isqrt_iterated(symmetrize(a), 5, prenorm, postcomp)).sum())(
        a
    )
    assert relative_error(hessian, expected) <= 1e-11


@every_prenorm
@with_and_without_postcomp
def test_zero_matrix_has_finite_derivatives_of_both_orders(prenorm: Prenorm, postcomp: bool) -> None:
    a = torch.zeros(1, 4, 4, requires_grad=True)
    z = sqrtm_newton_schulz(a, prenorm=prenorm, postcomp=postcomp)
    (da,) = torch.autograd.grad(z.sum(), a, create_graph=True)
    (dda,) = torch.autograd.grad(da.square().sum() + da.sum(), a)
    assert torch.equal(z, torch.zeros(1, 4, 4))
    assert da.isfinite().all()
    assert dda.isfinite().all()


def test_at_most_two_matrices_are_saved() -> None:
    b, c = 3, 32
    a = covariance(features(b, 64, c))
    assert saved_floats(sqrtm_newton_schulz, a) <= 2 * b * c * c


@every_count
@every_prenorm
def test_euler_identities(iterations: int, prenorm: Prenorm) -> None:
    """<dl/dSigma, Sigma> = <G, Z> / 2 with post-compensation, 0 without."""
    g = randn(6, 6)
    f = lambda a: sqrtm_newton_schulz(a, iterations=iterations, prenorm=prenorm)  # noqa: E731
    bare = lambda a: sqrtm_newton_schulz(a, iterations=iterations, prenorm=prenorm, postcomp=False)  # noqa: E731
    torch.testing.assert_close((gradient(f, SINGULAR, g) * SINGULAR).sum(), (g * f(SINGULAR)).sum() / 2)
    assert abs(float((gradient(bare, SINGULAR, g) * SINGULAR).sum())) <= 1e-12
