"""The operations by kernels in plain eager mode: what they save, and how their derivatives are found."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from covpool import ops
from covpool.kernels import covariance, isqrt
from kernels.oracles import randn


@pytest.mark.parametrize("operation", [ops.covariance, ops.isqrt_covariance])
@pytest.mark.parametrize("autocast", [False, True])
def test_forward_mode_outside_torch_func(operation: Callable[..., Tensor], autocast: bool) -> None:
    """Autocast lowers neither the value nor the tangent."""
    x, dx, found = randn(2, 6, 3), randn(2, 6, 3, seed=1), []
    options = {"precision": "float32", "vectorize": True}
    for backend in ("triton", "torch"):
        with forward_ad.dual_level(), torch.no_grad(), torch.autocast(x.device.type, torch.bfloat16, enabled=autocast):
            z = operation(forward_ad.make_dual(x, dx), backend=backend, **options)
            found.append(forward_ad.unpack_dual(z))
    for ours, torchs in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-5)


def root_of_moments(x: Tensor, backend: Any, **options: Any) -> Tensor:
    return ops.sqrtm_newton_schulz(x.mT @ x, backend=backend, **options)


@pytest.mark.parametrize("operation", [ops.covariance, ops.isqrt_covariance, root_of_moments])
def test_forward_mode_over_a_backward_pass(operation: Callable[..., Tensor]) -> None:
    """The kernels know nothing of the tangent of an upstream gradient, nor of that of the features."""
    x, dx, found = randn(1, 6, 3).requires_grad_(), randn(1, 6, 3, seed=1), []
    for backend in ("triton", "torch"):
        z = operation(x, backend=backend, precision="float32")
        with forward_ad.dual_level():
            (upstream,) = torch.autograd.grad(z, x, forward_ad.make_dual(z.detach(), z.detach().cos()))
            inner = operation(forward_ad.make_dual(x, dx), backend=backend, precision="float32")
            (both,) = torch.autograd.grad(inner.square().sum(), x)
            found.append([forward_ad.unpack_dual(one).tangent for one in (upstream, both)])
    for ours, torchs in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("operation", [ops.covariance, ops.isqrt_covariance, root_of_moments])
def test_gradients_for_several_upstream_gradients_at_once(operation: Callable[..., Tensor]) -> None:
    x, g = randn(1, 6, 3).requires_grad_(), randn(4, 1, 3, 3, seed=1)
    z = operation(x, backend="triton", precision="float32")
    (together,) = torch.autograd.grad(z, x, g, is_grads_batched=True, retain_graph=True)
    alone = torch.stack([torch.autograd.grad(z, x, one, retain_graph=True)[0] for one in g])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("operation", "kernels"), [(ops.covariance, covariance), (ops.isqrt_covariance, isqrt)], ids=["cov", "isqrt"]
)
def test_only_the_value_is_kept_where_no_derivative_is_needed(
    operation: Callable[..., Tensor], kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    for name in ("value_eager", "forward_eager"):
        whole = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *args, name=name, f=whole: called.append(name) or f(*args))
    x = randn(2, 6, 3)
    values = [operation(x, backend="triton")]
    with torch.no_grad():
        values.append(operation(x.requires_grad_(), backend="triton"))
    values.append(operation(x, backend="triton"))
    assert called == ["value_eager", "value_eager", "forward_eager"]
    assert [z.requires_grad for z in values] == [False, False, True]
    assert torch.equal(values[0], values[1]) and torch.equal(values[0], values[2])


@pytest.mark.parametrize("operation", [ops.covariance, ops.isqrt_covariance])
def test_nothing_but_the_kernels_stands_between_features_and_result(operation: Callable[..., Tensor]) -> None:
    x = randn(2, 6, 3).requires_grad_()
    z = operation(x, backend="triton", vectorize=True)
    assert z.grad_fn is not None
    accumulation, _ = z.grad_fn.next_functions[0]
    assert accumulation is not None and getattr(accumulation, "variable", None) is x
