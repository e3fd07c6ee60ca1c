"""Whether operations that have kernels are right on this machine: values and gradients against float64 on the CPU."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from covpool import ops

Operation = Callable[..., Tensor]


class Check(NamedTuple):
    """An operation, the same computed otherwise, and the tensors that both get."""

    name: str
    operation: Operation
    reference: Operation
    inputs: tuple[Tensor, ...]


class Errors(NamedTuple):
    """Relative errors of a value, and the largest one of its gradients."""

    value: float
    gradient: float


def self_test(device: str) -> dict[str, Errors]:
    """Run each operation forward and backward in float32 on a device. Returns its errors by its name."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        return {check.name: _compare(check, device) for check in _checks()}


def _checks() -> list[Check]:
    random = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    return [
        Check("iSQRT-COV", ops.isqrt_covariance, ops.reference.isqrt_literal, (randn(2, 49, 64),)),
        Check(
            "batch norm and ReLU",
            lambda x, weight, bias: ops.batch_norm(x, weight, bias, None, training=True, activation="relu"),
            lambda x, weight, bias: functional.batch_norm(x, None, None, weight, bias, training=True).relu(),
            (randn(4, 24, 9, 9), randn(24), randn(24)),
        ),
        Check(
            "depthwise convolution",
            lambda x, weight: ops.depthwise_convolution(x, weight, padding=(1, 1)),
            lambda x, weight: functional.conv2d(x, weight, padding=1, groups=len(weight)),
            (randn(4, 24, 9, 9), randn(24, 1, 3, 3)),
        ),
    ]


def _compare(check: Check, device: str) -> Errors:
    exact = _run(check.reference, [t.double() for t in check.inputs])
    found = _run(check.operation, [_laid_out(t.to(device)) for t in check.inputs])
    errors = [float((one.cpu() - truth).norm() / truth.norm()) for one, truth in zip(found, exact, strict=True)]
    return Errors(errors[0], max(errors[1:]))


def _laid_out(t: Tensor) -> Tensor:
    return t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 and t.shape[1] > 1 else t


def _run(operation: Operation, inputs: list[Tensor]) -> list[Tensor]:
    """The value of an operation, and the gradients of the sum of its cosines."""
    leaves = [t.detach().requires_grad_() for t in inputs]
    value = operation(*leaves)
    return [value.detach(), *torch.autograd.grad(value.cos().sum(), leaves)]
