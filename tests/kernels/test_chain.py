"""covpool.kernels.chain: the factor and the root with their derivatives, on one given matrix."""

import pytest
import torch
from torch import Tensor

from covpool.kernels import isqrt
from covpool.kernels.precision import mode
from kernels.oracles import DEVICE, randn, split
from ops.oracles import relative_error


def newton_schulz(a: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """Y_N and P_N of normalised matrices."""
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    y, p = a, eye.expand_as(a)
    for _ in range(iterations):
        half = 1.5 * eye - 0.5 * p @ y
        y, p = y @ half, half @ p
    return y, p


def problem(run: isqrt.Chain) -> tuple[Tensor, Tensor]:
    """Matrices of trace one and directions of norm one, of the chain's own order."""
    x, h = randn(run.b, run.size, run.size), randn(run.b, run.size, run.size, seed=1)
    a, h = x @ x.mT, h + h.mT
    trace = a.diagonal(dim1=1, dim2=2).sum(-1)[:, None, None]
    return a / trace, h / torch.linalg.matrix_norm(h, keepdim=True)


def operand(run: isqrt.Chain, value: Tensor) -> Tensor:
    return split(value, run.mode.storage, run.mode.parts)


def start(run: isqrt.Chain, a: Tensor) -> Tensor:
    return 1.5 * torch.eye(run.size, device=DEVICE) - 0.5 * a


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize("iterations", [2, 3])
def test_the_factor(iterations: int) -> None:
    run = isqrt.Chain(1, 20, iterations, mode("float32", iterations), randn(1))
    a, _ = problem(run)
    workspace, out = run.empty(1, 4), run.empty(1)
    workspace[:, 1] = operand(run, start(run, a))
    run.value(operand(run, a * run.mode.y_scale), workspace, out, randn(1), run.size, isqrt.PLAIN)
    _, p = newton_schulz(a.double(), iterations)
    assert relative_error(out.double().sum(1), p) <= 1e-5


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize(("factor", "iterations"), [(True, 3), (False, 2)])
def test_the_derivative_and_its_inner_products(factor: bool, iterations: int) -> None:
    m = mode("float32", iterations)
    run = isqrt.Chain(1, 20, iterations, m, randn(1))
    a, h = problem(run)
    workspace = run.empty(1, 8)
    workspace[:, 1], workspace[:, 5] = operand(run, start(run, a)), operand(run, -0.5 * m.direction_scale * h)
    stored_h = operand(run, m.direction_scale * m.y_scale * h)
    f, df, sums = run.pair(operand(run, a * m.y_scale), stored_h, workspace, factor=factor)
    a64, h64 = a.double(), h.double()
    value, slope = torch.func.jvp(lambda t: newton_schulz(t, iterations)[int(factor)], (a64,), (h64,))
    assert relative_error(df.double().sum(1) / m.direction_scale, slope) <= 1e-5
    if factor:
        assert relative_error(f.double().sum(1), value) <= 1e-5
    expected = torch.stack([(h64 * value).sum(), (slope * a64).sum()])
    assert relative_error(sums.double().sum((0, 1)) / m.direction_scale, expected) <= 1e-5


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_both_ways_of_launching_give_the_same_bits(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m = mode(precision, 3)
    run = isqrt.Chain(1, 20, 3, m, randn(1))
    a, _ = problem(run)
    roots = []
    for program_per_matrix in (True, False):
        monkeypatch.setattr(isqrt, "one_program_per_matrix", lambda b, answer=program_per_matrix: answer)
        workspace, out = run.empty(1, 4), randn(1).new_empty(1, 20, 20)
        workspace[:, 1] = operand(run, start(run, a))
        run.value(operand(run, a * m.y_scale), workspace, out, randn(1), 20, isqrt.MATRIX)
        roots.append(out)
    assert torch.equal(*roots)
    assert roots[0].isfinite().all()
