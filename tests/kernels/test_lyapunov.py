"""covpool.kernels.lyapunov: the steps against the published iteration in float64."""

import pytest
import torch
from torch import Tensor

from covpool import ops
from covpool.kernels import lyapunov
from covpool.kernels.precision import LARGEST, PRECISIONS
from covpool.ops import approximate_root
from covpool.ops.lyapunov_newton_schulz import lyapunov_steps
from kernels.oracles import DEVICE, LARGEST_ERROR, combinations, randn
from ops.oracles import relative_error


def roots(b: int, c: int, smallest: float = 0.09) -> Tensor:
    """Symmetric z of norm at most one, with eigenvalues from `smallest` on: what a Pade approximant returns."""
    u, _ = torch.linalg.qr(randn(b, c, c))
    values = torch.linspace(smallest, 1, c, device=DEVICE)
    return (u * values) @ u.mT


def published(s: Tensor, z: Tensor, g: Tensor, steps: int) -> Tensor:
    s, z, g = s.double(), z.double(), g.double()
    r = torch.linalg.matrix_norm(s, keepdim=True).rsqrt()
    with torch.enable_grad():
        return lyapunov_steps(z * r, (g + g.mT) / 2 * r, steps)


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize(
    ("c", "steps"), combinations((2, 20, 64, 130, 256), (1, 2, 8), few=[(2, 1), (20, 2), (12, 8), (20, 5)])
)
def test_the_published_iteration(c: int, steps: int) -> None:
    z, g = roots(2, c), randn(2, c, c, seed=1)
    s = z @ z
    found = lyapunov.solve_eager(s, z, g, steps, "float32")
    assert relative_error(found, published(s, z, g, steps)) <= LARGEST_ERROR["float32"]
    assert torch.equal(found, found.mT)
    assert torch.equal(lyapunov.solve_eager(s, z, g, steps, "float32"), found)  # repeated


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("c", [12, 20])
def test_every_precision(c: int, precision: str) -> None:
    z, g = roots(1, c), randn(1, c, c, seed=1)
    found = lyapunov.solve_eager(z @ z, z, g, 8, precision)
    assert relative_error(found, published(z @ z, z, g, 8)) <= LARGEST_ERROR[precision]


@pytest.mark.parametrize("scale", [1e-30, 1e-16, 1e16])
def test_scale_of_the_matrices_and_of_the_gradient(scale: float) -> None:
    z, g = roots(1, 5) * scale**0.5, randn(1, 5, 5, seed=1)
    s = (z.double() @ z.double()).float()
    for factor in (1, 1e-20, 1e10):
        found = lyapunov.solve_eager(s, z, g * factor, 4, "float32")
        assert relative_error(found, published(s, z, g * factor, 4)) <= 1e-5


def test_growth_in_null_directions_stays_in_range() -> None:
    """The one direction that grows by 1.5 with every step has the whole norm."""
    z, g = torch.zeros(2, 1, 4, 4, device=DEVICE)
    z[0, 0, 0] = g[0, 1, 1] = 1
    for steps in (8, lyapunov.MOST_STEPS):
        assert lyapunov.direction_scale(steps) * 1.5 ** (steps + 1) <= LARGEST
        found = lyapunov.solve_eager(z @ z, z, g, steps, "tf32")
        assert relative_error(found, published(z @ z, z, g, steps)) <= 2e-3


def test_zero_and_nan_stay_in_their_items() -> None:
    z, g = roots(3, 5), randn(3, 5, 5, seed=1)
    sound = lyapunov.solve_eager(z @ z, z, g, 3, "tf32")
    z[0], g[1, 2, 3] = 0, torch.nan
    found = lyapunov.solve_eager(z @ z, z, g, 3, "tf32")
    assert not found[0].any() and found[1].isnan().any() and torch.equal(found[2], sound[2])


def test_any_strides() -> None:
    z, g = roots(2, 5), randn(2, 5, 5, seed=1)
    expected = lyapunov.solve_eager(z @ z, z, g, 3, "float32")
    strided = torch.stack((g, g), -1)[..., 0]
    assert torch.equal(lyapunov.solve_eager((z @ z).mT, z.mT, strided, 3, "float32"), expected)


def test_the_root_by_pade_takes_its_gradient_from_the_kernels(
    monkeypatch: pytest.MonkeyPatch, launched: list[object]
) -> None:
    """Leading dimensions, and an upstream gradient that is not symmetric."""
    assert approximate_root.MOST_STEPS == lyapunov.MOST_STEPS
    x, g = randn(2, 1, 9, 12), randn(2, 1, 12, 12, seed=1)
    gradients = []
    for dtype, serve in ((torch.float64, False), (torch.float32, True)):
        monkeypatch.setattr(approximate_root, "_kernels_serve", lambda *_, serve=serve: serve)
        a = (x.mT @ x).to(dtype).requires_grad_()
        gradients += torch.autograd.grad(ops.sqrtm_pade(a, steps=4), a, g.to(dtype))
        assert bool(launched) == serve
    assert relative_error(gradients[1], gradients[0]) <= 1e-4
