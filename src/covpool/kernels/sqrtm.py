"""The Newton-Schulz root of given matrices on the GPU, forward and backward, as raw operations without autograd."""

import triton
from torch import Tensor

from covpool.kernels import matrices
from covpool.kernels.adjoint import matrix_constants, matrix_direction
from covpool.kernels.features import TINY
from covpool.kernels.launch import MATRIX, Chain
from covpool.kernels.operation import custom_operation
from covpool.kernels.plan import Planned, launch_kernel
from covpool.kernels.precision import mode


def _normalized(run: Chain, s: Tensor, postcomp: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The operand A = s / t, the traces t, and the scales of the result."""
    a, traces, scales = run.empty(run.b), s.new_empty(run.b), s.new_empty(run.b)
    launch_kernel(
        matrices.normalize_kernel, (run.items, run.b),
            s, a, traces, scales, run.counters, s.shape[1], *s.stride(), TINY, run.mode.y_scale, 1 / run.mode.y_scale,
        COMPENSATED=postcomp, **matrix_constants(run),
    )  # fmt: skip
    return a, traces, scales


def _forward(s: Tensor, iterations: int, postcomp: bool, precision: str) -> tuple[Tensor, ...]:
    b, c, _ = s.shape
    run = Chain(b, c, iterations, mode(precision, iterations), s, snug=True)
    a, _, scales = _normalized(run, s, postcomp)
    out = s.new_empty(b, c, c)
    run.value(a, out, scales, c, MATRIX)
    return (out,)


def _backward(s: Tensor, g: Tensor, iterations: int, postcomp: bool, precision: str) -> tuple[Tensor, ...]:
    b, c, _ = s.shape
    run = Chain(b, c, iterations, mode(precision, iterations), s, snug=True)
    a, traces, _ = _normalized(run, s, postcomp)
    h, norms = matrix_direction(run, g, run.mode.direction_scale * run.mode.y_scale)
    _, slope, sums = run.pair(a, h, factor=False)
    out = s.new_empty(b, c, c)
    launch_kernel(
        matrices.matrix_gradient_kernel, (run.items, b),
        slope, sums, norms, traces, out, c, 1 / run.mode.direction_scale, 0.5 if postcomp else 0.0, TINY,
        sums.shape[1], COMPENSATED=postcomp, ITEMS=triton.next_power_of_2(sums.shape[1]), **matrix_constants(run),
    )  # fmt: skip
    return (out,)


_planned_forward, _planned_backward = Planned(_forward), Planned(_backward)


def forward_eager(s: Tensor, iterations: int, postcomp: bool, precision: str) -> Tensor:
    """The root of the symmetric part of matrices (b, c, c) in float32, normalized by their trace."""
    return _planned_forward((s,), iterations, postcomp, precision)[0]


def backward_eager(s: Tensor, g: Tensor, iterations: int, postcomp: bool, precision: str) -> Tensor:
    """The symmetric gradient in s, given the gradient of the root, of which only the symmetric part counts."""
    return _planned_backward((s, g), iterations, postcomp, precision)[0]


forward = custom_operation("sqrtm_forward", forward_eager, lambda s, *_: s.new_empty(s.shape))
backward = custom_operation("sqrtm_backward", backward_eager, lambda s, *_: s.new_empty(s.shape))
