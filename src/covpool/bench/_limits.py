"""The measured limits of a device, and the share of them that a pool reaches."""

import math

import torch

from covpool.bench._measure import time_graph, time_interleaved
from covpool.pools import Pool


def matmul_rate(device: torch.device, dtype: torch.dtype = torch.float16, order: int = 4096) -> float:
    """TFLOP/s of a large torch matmul: the rate of tensor cores in float16, of the set matmul precision in float32."""
    x = torch.randn(order, order, device=device, dtype=dtype)
    timing = time_interleaved({"product": lambda: x @ x}, device, 0.2)["product"]
    return 2 * order**3 / timing.p20 / 1e9


def copy_rate(device: torch.device, mebibytes: int = 1024) -> float:
    """GB/s of a large copy, counting the bytes read and written."""
    x = torch.empty(mebibytes * 2**18, device=device)
    y = torch.empty_like(x)
    timing = (time_graph([lambda: y.copy_(x)]) if device.type == "cuda" else None) or time_interleaved(
        {"copy": lambda: y.copy_(x)}, device, 0.2
    )["copy"]
    return 2 * x.nbytes / timing.p20 / 1e6


def pool_shares(
    pool: Pool, shape: tuple[int, int, int], milliseconds: float, limits: tuple[float, float]
) -> dict[str, float]:
    """The shares of the matmul rate and the copy rate that a forward and backward pass of a pool reaches.

    The operations are three times the stated cost of the forward pass. The traffic is the smallest possible: the
    features are read in both passes and their gradient is written; the same holds for the output and the parameters.

    Args:
        pool: Pool without reduction.
        shape: Shape (b, n, c) of the features.
        milliseconds: Measured time.
        limits: Results of `matmul_rate` and `copy_rate`.
    """
    b, n, c = shape
    flops = 3 * 2 * b * pool.multiply_adds(n, c)
    parameters = sum(p.numel() for p in pool.parameters())
    size = 4 * (3 * math.prod(shape) + 2 * b * pool.out_features + 3 * parameters)
    return {
        "share_of_products": flops / milliseconds / 1e9 / limits[0],
        "share_of_copy": size / milliseconds / 1e6 / limits[1],
    }
