"""covpool.kernels.adjoint: the direction of a matrix; the rest is tested through the covariance and the root."""

import torch

from covpool.kernels.adjoint import matrix_direction
from covpool.kernels.launch import Chain
from covpool.kernels.precision import mode
from kernels.oracles import randn
from ops.oracles import relative_error


def test_the_direction_of_a_matrix_is_symmetric_and_of_unit_norm() -> None:
    m, g = mode("float32", 3), randn(2, 20, 20)
    run = Chain(2, 20, 3, m, g)
    h, norms = matrix_direction(run, g, m.direction_scale)
    s = (g + g.mT).double() / 2
    assert relative_error(norms, torch.linalg.matrix_norm(s)) <= 1e-6
    value = h.double().sum(1)[:, :20, :20] / m.direction_scale
    assert relative_error(value * norms[:, None, None], s) <= 1e-6
