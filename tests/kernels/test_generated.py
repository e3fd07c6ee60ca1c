"""Generated cases: the kernels, interpreted on a CPU, agree with torch."""

import pytest
import torch

from covpool import ops
from generated import SEEDS, draw, relative_error

pytestmark = pytest.mark.long


@pytest.mark.parametrize("seed", SEEDS)
def test_interpreted_kernels_agree_with_torch(seed: int) -> None:
    x, mask, _, scale, about = draw(seed, most_positions=20)
    options = {"iterations": 3 + seed % 5, "vectorize": seed % 2 == 0, "postcomp": seed % 3 > 0}
    positions = {"mask": mask} if seed % 4 == 0 else {}
    found = []
    for backend in ("triton", "torch"):
        t = (x / scale).float().requires_grad_()
        z = ops.isqrt_covariance(t, backend=backend, precision="float32", **options, **positions)
        weights = torch.linspace(-1, 1, z.numel()).reshape(z.shape)
        found.append((z.detach(), torch.autograd.grad((z * weights).sum(), t)[0]))
    assert relative_error(found[0][0], found[1][0]) <= 1e-4, f"{about}, {options}"
    # With one channel that varies, the root divided by its trace is constant: the exact gradient is zero, and both
    # back-ends give round-off. So the error may also be 1e-6 of the usual size of a gradient, |weights| |z| / |x|.
    (z, dx), (_, expected) = found
    usual = float(torch.linspace(-1, 1, z.numel()).norm() * z.norm() / (x / scale).norm())
    error = float((dx - expected).norm())
    assert error <= max(1e-2 * float(expected.norm()), 1e-6 * usual), f"{about}, {options}: gradient"
