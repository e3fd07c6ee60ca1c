"""The paper's Appendix V: algorithms for the square root of improved B-CNN, compared with iSQRT-COV."""

from collections.abc import Iterator
from copy import deepcopy

import torch

import covpool
from covpool.bench._candidates import Comparison, Function
from covpool.bench._compare import Shape, compare, features
from covpool.bench._measure import saved_memory
from covpool.bench._record import Record

SHAPES: dict[str, Shape] = {"cpu": (8, 196, 128), "cuda": (24, 784, 512)}  # b, n, c; VGG-16 at 448 on a GPU
EXACT = "improved_bcnn, eigenvalues, exact Lyapunov"


def pools(channels: int) -> dict[str, covpool.Pool]:
    """The pools of the table, named by their algorithms for the forward and the backward pass."""

    def improved(**options: object) -> covpool.Pool:
        return covpool.create_pool("improved_bcnn", channels, **options)

    found = {EXACT: improved(), "improved_bcnn, NS 5, exact Lyapunov": improved(forward="newton_schulz")}
    for steps in (5, 10, 20):
        options = {"iterations": steps, "backward": "iterative_lyapunov", "backward_steps": steps}
        found[f"improved_bcnn, NS {steps}, iterative Lyapunov {steps}"] = improved(forward="newton_schulz", **options)
    found["improved_bcnn, NS 5, autograd"] = improved(forward="newton_schulz", backward="autograd")
    found["isqrt, NS 5"] = covpool.create_pool("isqrt", channels)
    return found


def roots(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    """Measure time, memory kept for the backward pass, and error against the exact root and gradient in float64."""
    shape = SHAPES[device.type]
    made = {name: pool.to(device) for name, pool in pools(shape[-1]).items()}
    exact = deepcopy(made[EXACT]).double()
    oracles: dict[str, Function] = dict.fromkeys(made, exact)
    oracles["isqrt, NS 5"] = deepcopy(made["isqrt, NS 5"]).double()
    x = features(shape, device, seed).requires_grad_()
    for record in compare("roots", Comparison({**made}, oracles), shape, device, seconds, seed):
        pool = made[record.name]
        record.extra["saved_mib"] = saved_memory(lambda pool=pool: pool(x))  # type: ignore[misc]
        yield record
