"""covpool.ops._newton_schulz: the iteration with its derivatives, against the iteration of the paper."""

import pytest
import torch
from torch import Tensor

from cases import spd
from covpool.ops._newton_schulz import Output, newton_schulz, newton_schulz_pair
from ops.oracles import finite_difference, randn, relative_error

ITERATIONS = (1, 2, 3, 5, 7)
A = torch.stack([spd(0.5, 0.3, 0.15, 0.05), spd(0.7, 0.3, 0.0, 0.0, seed=1)])  # (2, 4, 4), trace one, one singular

every_setting = pytest.mark.parametrize(
    ("iterations", "output"), [(n, output) for n in ITERATIONS for output in ("root", "factor")]
)


def printed(a: Tensor, iterations: int, output: Output) -> Tensor:
    """Y_N or P_N by the coupled iteration of the paper."""
    eye = torch.eye(a.shape[-1], dtype=a.dtype)
    y, p = a, eye.expand_as(a)
    for _ in range(iterations):
        t = (3 * eye - p @ y) / 2
        y, p = y @ t, t @ p
    return y if output == "root" else p


def symmetric(seed: int) -> Tensor:
    h = randn(2, 4, 4, seed=seed)
    return h + h.mT


@every_setting
def test_value_is_the_printed_iteration(iterations: int, output: Output) -> None:
    (f,) = newton_schulz((A,), iterations, output)
    torch.testing.assert_close(f, printed(A, iterations, output), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("iterations", ITERATIONS)
def test_root_is_a_times_the_factor(iterations: int) -> None:
    (y,), (p,) = newton_schulz((A,), iterations, "root"), newton_schulz((A,), iterations, "factor")
    torch.testing.assert_close(y, A @ p, rtol=1e-12, atol=1e-13)


@every_setting
def test_first_component_is_the_directional_derivative(iterations: int, output: Output) -> None:
    h = symmetric(1)
    f, df = newton_schulz((A, h), iterations, output)
    _, expected = torch.func.jvp(lambda a: printed(a, iterations, output), (A,), (h,))
    torch.testing.assert_close(f, printed(A, iterations, output), rtol=1e-13, atol=1e-13)
    assert relative_error(df, expected) <= 1e-12
    assert relative_error(df, finite_difference(lambda a: printed(a, iterations, output), A, h, 3e-7)) <= 1e-7


@every_setting
def test_third_component_is_the_mixed_derivative(iterations: int, output: Output) -> None:
    """d2F[H, K] + dF[C], by two nested forward derivatives of the printed iteration."""
    h, k, c = symmetric(1), symmetric(2), symmetric(3)
    jet = newton_schulz((A, h, k, c), iterations, output)

    def derivative(a: Tensor, h: Tensor) -> Tensor:
        return torch.func.jvp(lambda a: printed(a, iterations, output), (a,), (h,))[1]

    _, expected = torch.func.jvp(derivative, (A, h), (k, c))
    assert relative_error(jet[3], expected) <= 1e-12


@pytest.mark.parametrize("iterations", ITERATIONS)
def test_derivative_is_its_own_adjoint(iterations: int) -> None:
    """<K, dY[H]> = <dY[K], H>, so the backward pass is a forward derivative."""
    h, k = symmetric(1), symmetric(2)
    dh, dk = (newton_schulz((A, t), iterations, "root")[1] for t in (h, k))
    torch.testing.assert_close((k * dh).sum(), (dk * h).sum(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("iterations", [1, 2, 3])
@pytest.mark.parametrize("output", ["root", "factor"])
def test_pair_has_derivatives_of_every_kind(iterations: int, output: Output) -> None:
    """Gradient, second gradient, forward and batched derivative at symmetric arguments."""
    a, h = A[:1, :3, :3].clone().requires_grad_(), symmetric(1)[:1, :3, :3].clone().requires_grad_()

    def pair(a: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return newton_schulz_pair((a + a.mT) / 2, (h + h.mT) / 2, iterations, output)

    assert torch.autograd.gradcheck(pair, (a, h), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(pair, (a, h))


@pytest.mark.parametrize("argument", [0, 1])
def test_pair_with_one_constant_argument(argument: int) -> None:
    a, h = A.clone(), symmetric(1)
    tangents = [torch.zeros_like(a), torch.zeros_like(h)]
    tangents[argument] = symmetric(2)
    point = (a, h)

    def moved(t: Tensor) -> Tensor:
        arguments = (t, h) if argument == 0 else (a, t)
        return newton_schulz_pair(*arguments, 3, "root")[1]

    _, dz = torch.func.jvp(moved, (point[argument],), (tangents[argument],))
    assert relative_error(dz, finite_difference(moved, point[argument], tangents[argument])) <= 1e-7


def test_factor_grows_as_one_and_a_half_to_the_n_on_the_null_space() -> None:
    """On the null space P_N grows as 1.5^N, while Y_N stays zero."""
    a = torch.zeros(1, 2, 2, dtype=torch.float64)
    a[0, 0, 0] = 1
    for iterations in ITERATIONS:
        (p,), (y,) = newton_schulz((a,), iterations, "factor"), newton_schulz((a,), iterations, "root")
        assert p[0, 1, 1] == 1.5**iterations
        assert y[0, 1, 1] == 0
