"""covpool.ops.sqrtm_newton_schulz: its exact spectral form, convergence and invariances.

Its derivatives are in test_sqrtm_newton_schulz_gradient.py.
"""

import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cases import CHANNELS, features, hard_matrices, spd
from covpool.ops import covariance, sqrtm_newton_schulz
from covpool.ops.elementary import symmetrize
from covpool.ops.sqrtm_newton_schulz import Prenorm
from ops import reference
from ops.oracles import (
    gradient,
    randn,
    refuses,
    relative_error,
    rotation,
)

ITERATIONS = (1, 2, 3, 5, 7, 10)
A = hard_matrices()["distinct"]
SINGULAR = spd(3.0, 1.0, 1.0, 0.2, 0.0, 0.0)

every_count = pytest.mark.parametrize("iterations", ITERATIONS)
every_prenorm = pytest.mark.parametrize("prenorm", ["trace", "frobenius"])
with_and_without_postcomp = pytest.mark.parametrize("postcomp", [True, False])


def scalar(a: float, iterations: int) -> float:
    """y_N of one eigenvalue: sqrt(a) x_N."""
    x = math.sqrt(a)
    for _ in range(iterations):
        x = x * (3 - x * x) / 2
    return math.sqrt(a) * x


@every_count
@every_prenorm
@with_and_without_postcomp
@pytest.mark.parametrize("name", [*hard_matrices(), "singular"])
def test_equals_its_exact_spectral_form(name: str, iterations: int, prenorm: Prenorm, postcomp: bool) -> None:
    a = {**hard_matrices(), "singular": SINGULAR}[name]
    z = sqrtm_newton_schulz(a, iterations=iterations, prenorm=prenorm, postcomp=postcomp)
    assert relative_error(z, reference.isqrt_spectral(a, iterations, prenorm, postcomp)) <= 1e-12


@every_count
@every_prenorm
@pytest.mark.parametrize("c", CHANNELS)
def test_equals_its_exact_spectral_form_at_every_size(c: int, iterations: int, prenorm: Prenorm) -> None:
    a = covariance(features(1, 40, c))[0]
    z = sqrtm_newton_schulz(a, iterations=iterations, prenorm=prenorm)
    assert relative_error(z, reference.isqrt_spectral(a, iterations, prenorm)) <= 1e-12


def test_one_iteration_in_closed_form() -> None:
    t = A.trace()
    n = A / t
    torch.testing.assert_close(sqrtm_newton_schulz(A, iterations=1), t.sqrt() * (3 * n - n @ n) / 2)


@every_prenorm
def test_many_iterations_reach_the_root(prenorm: Prenorm) -> None:
    """The limit is the exact root. Round-off on the null space grows as 1.5^N, so N is as small as possible."""
    z = sqrtm_newton_schulz(SINGULAR, iterations=15, prenorm=prenorm)
    assert relative_error(z @ z, SINGULAR) <= 1e-12
    assert relative_error(z, reference.power(SINGULAR, 0.5)) <= 1e-12


@every_count
def test_identity(iterations: int) -> None:
    """Sigma = I_d: every eigenvalue of A is 1 / d. With N = 5 and d = 256 only 45 % of the root is reached."""
    z = sqrtm_newton_schulz(torch.eye(256, dtype=torch.float64), iterations=iterations)
    expected = 16 * scalar(1 / 256, iterations)
    torch.testing.assert_close(z, expected * torch.eye(256, dtype=torch.float64))
    if iterations == 5:
        assert expected == pytest.approx(0.45, abs=0.01)


@every_count
@every_prenorm
def test_order_one_is_exact(iterations: int, prenorm: Prenorm) -> None:
    a = torch.tensor([[[1.7]], [[1e-6]], [[123.0]]], dtype=torch.float64)
    torch.testing.assert_close(
        sqrtm_newton_schulz(a, iterations=iterations, prenorm=prenorm), a.sqrt(), rtol=1e-15, atol=0
    )


@every_prenorm
def test_approaches_the_root_from_below(prenorm: Prenorm) -> None:
    """Z_N <= Z_(N+1) <= a^(1/2), in the order of positive semi-definite matrices."""
    roots = [sqrtm_newton_schulz(SINGULAR, iterations=n, prenorm=prenorm) for n in range(1, 12)]
    for lower, upper in zip(roots, [*roots[1:], reference.power(SINGULAR, 0.5)], strict=True):
        assert torch.linalg.eigvalsh(upper - lower).min() >= -1e-14


@every_count
def test_slope_at_zero(iterations: int) -> None:
    """The slope at zero is 1.5^N, while that of the root is infinite."""
    a = torch.diag(torch.tensor([1e-12, 1 - 1e-12], dtype=torch.float64))
    assert float(sqrtm_newton_schulz(a, iterations=iterations)[0, 0]) / 1e-12 == pytest.approx(
        1.5**iterations, rel=1e-8
    )
    da = gradient(
        lambda a: sqrtm_newton_schulz(a, iterations=iterations, postcomp=False),
        torch.diag(torch.tensor([0.0, 1.0], dtype=torch.float64)),
        torch.diag(torch.tensor([1.0, 0.0], dtype=torch.float64)),
    )
    assert float(da[0, 0]) == pytest.approx(1.5**iterations)


THRESHOLDS = (0.84, 0.57, 0.32, 0.157, 0.073, 0.033, 0.0149, 0.0067, 0.0030, 0.0013)


@pytest.mark.parametrize(("iterations", "threshold"), list(enumerate(THRESHOLDS, start=1)))
def test_one_percent_thresholds(iterations: int, threshold: float) -> None:
    """The relative error is below 1 % for eigenvalues of A from this one on, but not for much smaller ones."""

    def error(a: float) -> float:
        z = sqrtm_newton_schulz(torch.diag(torch.tensor([a, 1 - a], dtype=torch.float64)), iterations=iterations)
        return 1 - float(z[0, 0]) / math.sqrt(a)

    assert error(1.05 * threshold) < 0.01 < error(0.95 * threshold)


def test_frobenius_is_ahead_of_trace() -> None:
    """By log_(9/4)(tr / |.|_F) iterations, at most 3.3 for 196 positions."""
    a = covariance(features(1, 196, 256).relu())[0]
    root = reference.power(a, 0.5)

    def error(iterations: int, prenorm: Prenorm) -> float:
        return relative_error(sqrtm_newton_schulz(a, iterations=iterations, prenorm=prenorm), root)

    lead = math.log(float(a.trace() / a.norm()), 9 / 4)
    assert 0 < lead <= 3.3
    for n in (3, 5, 7):
        assert error(n + math.ceil(lead), "trace") < error(n, "frobenius") < error(n + math.floor(lead), "trace")


def test_convergence_in_float32_and_float64_on_a_singular_matrix() -> None:
    """With 256 channels and 196 positions, float32 improves up to N = 15 and float64 stays accurate up to N = 50."""
    a = covariance(features(1, 196, 256).relu())[0]
    root = reference.power(a, 0.5)
    errors = {n: relative_error(sqrtm_newton_schulz(a.float(), iterations=n), root) for n in (3, 5, 7, 10, 15)}
    assert list(errors.values()) == sorted(errors.values(), reverse=True)
    assert errors[5] > 0.1  # a smoothed root
    assert errors[15] <= 1e-3
    with pytest.warns(UserWarning, match="lose accuracy in float32"):
        late = sqrtm_newton_schulz(a.float(), iterations=40)
    assert not relative_error(late, root) <= 1e-3
    assert relative_error(sqrtm_newton_schulz(a, iterations=50), root) <= 1e-6


def test_twenty_iterations_and_float64_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sqrtm_newton_schulz(A.float(), iterations=20)
        sqrtm_newton_schulz(A, iterations=21)


# --- invariants -----------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(st.floats(1e-6, 1e6), st.integers(1, 8), st.sampled_from(["trace", "frobenius"]))
def test_homogeneity_with_and_invariance_without_postcomp(scale: float, iterations: int, prenorm: Prenorm) -> None:
    options = {"iterations": iterations, "prenorm": prenorm}
    z, bare = (sqrtm_newton_schulz(SINGULAR, postcomp=postcomp, **options) for postcomp in (True, False))
    assert relative_error(sqrtm_newton_schulz(scale * SINGULAR, **options), math.sqrt(scale) * z) <= 1e-12
    assert relative_error(sqrtm_newton_schulz(scale * SINGULAR, postcomp=False, **options), bare) <= 1e-12


@every_prenorm
def test_equivariance(prenorm: Prenorm) -> None:
    q = rotation(6)
    z = sqrtm_newton_schulz(SINGULAR, prenorm=prenorm)
    torch.testing.assert_close(sqrtm_newton_schulz(q @ SINGULAR @ q.T, prenorm=prenorm), q @ z @ q.T)


def test_bare_root_has_unit_norm_in_the_limit() -> None:
    """tr(Z^2) -> 1 (trace); |Z^2|_F -> 1 (Frobenius)."""
    trace, frobenius = (
        sqrtm_newton_schulz(A, iterations=40, prenorm=prenorm, postcomp=False) for prenorm in ("trace", "frobenius")
    )
    assert float((trace @ trace).trace()) == pytest.approx(1)
    assert float((frobenius @ frobenius).norm()) == pytest.approx(1)


def test_only_the_symmetric_part_counts() -> None:
    skew = randn(6, 6).triu(1)
    torch.testing.assert_close(sqrtm_newton_schulz(A + skew - skew.T), sqrtm_newton_schulz(A))


def test_inputs_of_every_layout() -> None:
    a = torch.stack([A, 2 * A, SINGULAR, A, A, A])
    z = sqrtm_newton_schulz(a)
    assert torch.equal(sqrtm_newton_schulz(a.unflatten(0, (2, 3))), z.unflatten(0, (2, 3)))
    torch.testing.assert_close(sqrtm_newton_schulz(a[0]), z[0])
    torch.testing.assert_close(sqrtm_newton_schulz(a[:, ::2, ::2]), sqrtm_newton_schulz(a[:, ::2, ::2].contiguous()))
    assert sqrtm_newton_schulz(a[:0]).shape == (0, 6, 6)


@pytest.mark.parametrize("fault", [torch.nan, torch.inf])
def test_a_fault_stays_in_its_item(fault: float) -> None:
    a = torch.stack([A, A, A])
    a[1, 0, 1] = fault
    z = sqrtm_newton_schulz(a)
    assert not z[1].isfinite().all()
    assert torch.equal(z[::2], sqrtm_newton_schulz(torch.stack([A, A])))


def test_refusals_name_what_came() -> None:
    with refuses(ValueError, "`a`", "(..., c, c)", "(2, 3)"):
        sqrtm_newton_schulz(torch.ones(2, 3))
    with refuses(ValueError, "`iterations`", "positive integer", "0"):
        sqrtm_newton_schulz(A, iterations=0)
    for iterations in (2.5, True, "5"):
        with refuses(TypeError, "`iterations`", "positive integer", repr(iterations)):
            sqrtm_newton_schulz(A, iterations=iterations)  # type: ignore[arg-type]
    with refuses(ValueError, "`prenorm`", "'trace'", "'tracy'", "did you mean 'trace'"):
        sqrtm_newton_schulz(A, prenorm="tracy")  # type: ignore[arg-type]


def test_half_precision_gives_float32() -> None:
    def exact(a: Tensor) -> Tensor:
        return reference.isqrt_spectral(a.double(), 5)

    for dtype in (torch.float16, torch.bfloat16):
        a = A.to(dtype)
        z = sqrtm_newton_schulz(a)
        assert z.dtype == torch.float32
        assert relative_error(z, exact(symmetrize(a.double()))) <= 1e-6


def test_the_kernels_work_under_vmap() -> None:
    pytest.importorskip("triton")
    a = torch.stack([A, 2 * A, SINGULAR]).float().to("cuda" if torch.cuda.is_available() else "cpu")
    z = torch.vmap(lambda a: sqrtm_newton_schulz(a, backend="triton"))(a)
    assert relative_error(z.cpu(), torch.stack([reference.isqrt_spectral(one.double().cpu(), 5) for one in a])) <= 1e-5
