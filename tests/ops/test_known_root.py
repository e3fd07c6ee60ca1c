"""covpool.ops._known_root: every transform takes the derivative from `solve`."""

import torch
from torch import Tensor

from cases import spd
from covpool.ops import lyapunov_solve
from covpool.ops._known_root import KnownRoot

S = spd(4.0, 1.0, 0.25)
Z = torch.linalg.cholesky(S @ S)  # the value is returned unchanged, so it can be any matrix


def solve(s: Tensor, z: Tensor, g: Tensor, steps: int | None) -> Tensor:
    assert steps == 3
    return lyapunov_solve(s, g) + z


def call(s: Tensor) -> Tensor:
    root: Tensor = KnownRoot.call(s, Z, solve, 3)
    return root


def test_the_value_is_the_one_given_and_the_derivative_is_that_of_solve() -> None:
    g = torch.arange(9, dtype=torch.float64).reshape(3, 3)
    s = S.clone().requires_grad_()
    z = call(s)
    (ds,) = torch.autograd.grad(z, s, g)
    assert torch.equal(z, Z) and torch.equal(ds, lyapunov_solve(S, g) + Z)
    _, dz = torch.func.jvp(call, (S,), (g,))
    assert torch.equal(dz, ds)


def test_compiles() -> None:
    torch.compiler.reset()
    s = S.clone().requires_grad_()
    (ds,) = torch.autograd.grad(torch.compile(call, fullgraph=True, backend="aot_eager")(s).sum(), s)
    torch.testing.assert_close(ds, lyapunov_solve(S, torch.ones_like(S)) + Z)
