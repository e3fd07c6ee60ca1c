"""Tools of the tests of the operations: finite differences, relative errors, rotations, formulas of papers."""

import importlib
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cases import generator

Operation = Callable[[Tensor], Tensor]


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=generator(seed))


def rotation(c: int, seed: int = 7) -> Tensor:
    """A random orthogonal matrix."""
    q, _ = torch.linalg.qr(randn(c, c, seed=seed))
    return q


def relative_error(value: Tensor, truth: Tensor) -> float:
    """|value - truth|_F / |truth|_F, in float64."""
    difference = torch.linalg.vector_norm(value.detach().double() - truth.detach().double())
    return float(
        difference / torch.linalg.vector_norm(truth.detach().double()).clamp(min=torch.finfo(torch.float64).tiny)
    )


def finite_difference(f: Operation, x: Tensor, dx: Tensor, step: float = 1e-6) -> Tensor:
    """The central difference of f at x in the direction dx."""
    with torch.no_grad():
        return (f(x + step * dx) - f(x - step * dx)) / (2 * step)


def gradient(f: Operation, x: Tensor, g: Tensor) -> Tensor:
    """The gradient of <g, f(x)> in x."""
    x = x.detach().clone().requires_grad_()
    (dx,) = torch.autograd.grad((g * f(x)).sum(), x)
    return dx


def value_and_gradient(f: Operation, x: Tensor, seed: int = 11) -> tuple[Tensor, Tensor]:
    """f(x), and its gradient under a random upstream gradient that is not symmetric."""
    x = x.detach().clone().requires_grad_()
    z = f(x)
    g = randn(*z.shape, seed=seed).to(z.dtype)
    (dx,) = torch.autograd.grad((g * z).sum(), x)
    return z.detach(), dx


def assert_gradient(f: Operation, x: Tensor, *, directions: int = 3, step: float = 1e-6, tol: float = 1e-6) -> None:
    """<g, df[dx]> by finite differences equals <df^T g, dx>, for random g (not symmetric) and random directions dx."""
    with torch.no_grad():
        g = randn(*f(x).shape, seed=3)
    da = gradient(f, x, g)
    assert da.isfinite().all()
    for seed in range(directions):
        dx = randn(*x.shape, seed=100 + seed)
        expected = (g * finite_difference(f, x, dx, step)).sum()
        scale = max(1.0, float(expected.abs()))
        assert abs(float((da * dx).sum() - expected)) <= tol * scale


def saved_floats(f: Operation, x: Tensor) -> int:
    """The number of floats that f saves for its backward pass, without x. A storage counts once."""
    x = x.detach().clone().requires_grad_()
    kept: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        if t.is_floating_point():
            kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes() // t.element_size()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        f(x)
    kept.pop(x.untyped_storage().data_ptr(), None)
    return sum(kept.values())


def serve_anywhere(monkeypatch: pytest.MonkeyPatch, operation: str) -> Callable[..., bool]:
    """Let the kernels of an operation serve every device as a GPU. Returns its choice of what they serve."""
    pytest.importorskip("triton")
    module = importlib.import_module(f"covpool.ops.{operation}")
    served = module._served

    def served_as_on_a_gpu(*args: Any, **options: Any) -> bool:
        with monkeypatch.context() as pretended:
            pretended.setattr(Tensor, "is_cuda", True)
            return bool(served(*args, **options))

    monkeypatch.setattr(module, "_served", served_as_on_a_gpu)
    return served_as_on_a_gpu


def refuses(error: type[Exception], *words: str) -> Any:
    """A context that expects an error whose message names all these words, in this order."""
    return pytest.raises(error, match=".*".join(re.escape(word) for word in words))
