"""Compile every kernel for a GPU that need not be present: `python compile_for.py CAPABILITY SHARED_MEMORY WHAT`.

WHAT is "once", which compiles each kernel in one way, or "every_way", which also takes the other precision, larger
batches and larger tiles. Prints the name of each kernel, its tile size, the shared memory of its programs and the bytes
that a thread keeps outside of its registers, as JSON. Run it with TRITON_INTERPRET=0.
"""

import json
import re
import subprocess
import sys
import tempfile
from types import SimpleNamespace
from typing import Any

import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from covpool.kernels import (
    batch_norm,
    covariance,
    cut,
    depthwise,
    isqrt,
    launch,
    lyapunov,
    plan,
    power,
    sketch,
    sqrtm,
)

# Precision, then batch, form, positions and channels: tiles of 64 and 128, on the chip and through memory, alone and
# in teams.
FEATURES = {
    "once": [("float32", 2, "dual", 150, 300)],
    "every_way": [
        (precision, *shape)
        for precision, few in (("tf32", (64, "dual", 40, 300)), ("float32", (50, "dual", 150, 300)))
        for shape in ((64, "primal", 1100, 200), (2, "dual", 150, 300), few)
    ],
}
MATRICES = {
    "once": [("tf32", 2, 1)],
    "every_way": [(precision, b, c) for precision in ("tf32", "float32") for b, c in ((64, 200), (64, 257), (2, 1))],
}
COVARIANCES = {
    "once": [("tf32", True)],
    "every_way": [(precision, full) for precision in ("tf32", "float32") for full in (True, False)],
}
NORMS = {
    "once": [(144, "relu6", torch.bfloat16), (144, "silu", torch.float32)],
    "every_way": [
        (c, activation, dtype)
        for c, dtype in ((24, torch.bfloat16), (30, torch.float16), (144, torch.float32))
        for activation in ("none", "relu", "relu6", "silu")
    ],
}
FILTERS = {
    "once": [(144, 3, 1, torch.bfloat16), (96, 5, 1, torch.float32)],
    "every_way": [
        (c, k, stride, dtype)
        for c, dtype in ((24, torch.bfloat16), (30, torch.float16), (144, torch.float32))
        for k in (3, 5, 7)
        for stride in (1, 2)
    ],
}
CUTS = {
    "once": [(224, False), (1, True)],
    "every_way": [(size, cubic) for size in (224, 17, 1) for cubic in (False, True)],
}


def unplanned(self: plan.Planned, tensors: tuple[Any, ...], *options: Any, outputs: int | None = None) -> Any:
    """Call a planned function without recording it: no launch can be prepared for a GPU that is not there."""
    return self.function(*tensors, *options)[:outputs]


def stack_of(cubin: bytes) -> int:
    """The bytes of a compiled kernel's stack, to which registers are spilled."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True)
    (found,) = re.findall(r"STACK:(\d+)", usage.stdout + usage.stderr)
    return int(found)


def main(capability: int, room: int, what: str) -> None:
    target = GPUTarget("cuda", capability, 32)
    driver.set_active(
        SimpleNamespace(
            get_current_target=lambda: target,
            get_current_device=lambda: 0,
            get_current_stream=lambda device=None: 0,
        )
    )
    launched, needed = JITFunction.run, []

    def compile_only(self: Any, *args: Any, warmup: bool = False, **options: Any) -> Any:
        kernel = launched(self, *args, warmup=True, **options)
        needed.append((self.__name__, options.get("T"), kernel.metadata.shared, stack_of(kernel.asm["cubin"])))
        return kernel

    JITFunction.run = compile_only  # type: ignore[method-assign]
    plan.Planned.__call__ = unplanned  # type: ignore[method-assign]
    launch.shared_memory, launch.multiprocessors = lambda device: room, lambda device: 132
    for precision, b, form, n, c in FEATURES[what]:
        x = torch.empty(b, n, c)
        z, *kept = isqrt.forward(x, None, form, 5, True, precision)
        isqrt.backward(x, None, *kept, z, form, 5, True, precision)
    for precision, b, c in MATRICES[what]:
        s = torch.empty(b, c, c)
        sqrtm.backward(s, sqrtm.forward(s, 5, True, precision), 5, True, precision)
        lyapunov.solve_eager(s, s.clone(), s.clone(), 8, precision)
    for precision, full in COVARIANCES[what]:
        x = torch.empty(2, 150, 200)
        z, *kept = covariance.forward_eager(x, None, True, full, precision)
        covariance.backward_eager(x, None, *kept, z, full, precision)
    z = torch.empty(2, 5000)
    power.backward_eager(z, power.forward_eager(z, 1e-12)[1], z, 1e-12, True)
    for order in (4,) if what == "once" else (1, 2, 3, 4):
        x, hashes, signs = torch.empty(2, 5, 8), torch.zeros(order, 8, dtype=torch.long), torch.ones(order, 8)
        pooled, transforms = sketch.forward(x, None, hashes, signs, 16)
        sketch.backward(x, None, transforms, pooled, hashes, signs, 16)
    for c, activation, dtype in NORMS[what]:
        x = torch.empty(2, c, 40, 40, dtype=dtype).contiguous(memory_format=torch.channels_last)
        weight, bias, mean, variance = torch.empty(4, c)
        running = mean, variance, torch.tensor(0)
        y, *kept = batch_norm.forward_eager(x, weight, bias, running, 0.1, 1e-5, activation)
        batch_norm.backward_eager(x, y, *kept, weight, bias, 1e-5, activation)
    for c, k, stride, dtype in FILTERS[what]:
        x = torch.empty(2, c, 40, 40, dtype=dtype).contiguous(memory_format=torch.channels_last)
        weight, options = torch.empty(c, 1, k, k), ((stride, stride), (k // 2, k // 2), (1, 1))
        y, taps = depthwise.forward_eager(x, weight, (40 // stride, 40 // stride), *options)
        depthwise.input_gradient_eager(y, weight, taps, (40, 40), *options)
        depthwise.filter_gradient_eager(x, y, weight, *options)
    for size, cubic in CUTS[what]:
        regions = *torch.zeros(4, 2), *torch.zeros(2, 2, dtype=torch.bool)
        pixels = torch.zeros(64, dtype=torch.int32)
        cut.cut_regions(pixels, torch.zeros(2).long(), torch.ones(2, 2).long(), regions, size=size, cubic=cubic)
    json.dump(needed, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
