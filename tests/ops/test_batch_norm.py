"""covpool.ops.batch_norm: torch's batch norm and activation, and which cases the kernels compute."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional

from covpool import ops
from covpool._errors import CovpoolError
from kernels.oracles import DEVICE, randn
from ops.oracles import assert_gradient, relative_error, serve_anywhere

needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
REFERENCE = {"none": lambda z: z, "relu": functional.relu, "relu6": functional.relu6, "silu": functional.silu}


def inputs(c: int = 6) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    x = (randn(3, c, 4, 5) + 2).contiguous(memory_format=torch.channels_last)
    running = randn(c, seed=3), randn(c, seed=4).square(), torch.tensor(7, device=DEVICE)
    return x, randn(c, seed=1), randn(c, seed=2), running


@pytest.mark.parametrize("activation", REFERENCE)
@pytest.mark.parametrize("training", [True, False])
def test_value_and_running_statistics(activation: Any, training: bool) -> None:
    x, weight, bias, running = inputs()
    mean, variance = running[0].double().cpu(), running[1].double().cpu()
    with torch.no_grad():
        y = ops.batch_norm(x, weight, bias, running, training=training, activation=activation)
    x, weight, bias = (t.double().cpu() for t in (x, weight, bias))
    z = functional.batch_norm(x, mean, variance, weight, bias, training, 0.1, 1e-5)
    assert relative_error(y.cpu(), REFERENCE[activation](z)) <= 1e-6
    assert relative_error(running[0].cpu(), mean) <= 1e-6
    assert relative_error(running[1].cpu(), variance) <= 1e-6
    assert running[2].item() == 7 + training


@pytest.mark.parametrize("activation", REFERENCE)
def test_gradient(activation: Any) -> None:
    x, weight, bias = (t.double().cpu() for t in inputs()[:3])
    assert_gradient(lambda x: ops.batch_norm(x, weight, bias, None, training=True, activation=activation), x, step=1e-6)


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(CovpoolError, match=r"activation.*tanh"):
        ops.batch_norm(*inputs(), training=True, activation="tanh")  # type: ignore[arg-type]


def test_the_kernels_compute_what_they_support(monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve_anywhere(monkeypatch, "batch_norm")
    x, weight, bias, running = inputs()
    assert served(x, weight, bias, running, training=True)
    assert served(x, weight, bias, None, training=True)
    assert not served(x, weight, bias, None, training=False)
    assert not served(x.contiguous(), weight, bias, running, training=True)
    assert not served(x.double(), weight, bias, running, training=True)
    assert not served(x[:1, :, :1, :1], weight, bias, running, training=True)
    strided, elsewhere = torch.ones(12, device=DEVICE)[::2], weight.to("meta")
    for other in (weight.half(), weight[:1], strided, elsewhere):
        assert not served(x, other, bias, running, training=True)
        assert not served(x, weight, other, running, training=True)
        assert not served(x, weight, bias, (other, *running[1:]), training=True)
        assert not served(x, weight, bias, (running[0], other, running[2]), training=True)
    assert not served(x, weight, bias, (*running[:2], running[2].to("meta")), training=True)


@pytest.mark.parametrize(("b", "expected"), [(2**14 - 1, True), (2**14, False)])
def test_the_kernels_compute_maps_whose_rows_they_can_count(
    monkeypatch: pytest.MonkeyPatch, b: int, expected: bool
) -> None:
    served = serve_anywhere(monkeypatch, "batch_norm")
    x, weight = torch.empty(b, 1, 256, 256, device="meta"), torch.empty(1, device="meta")
    assert served(x, weight, weight, None, training=True) is expected


def gradients(x: Tensor, weight: Tensor, bias: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    """The gradients of a batch norm and a SiLU by torch in float64."""
    exact = [t.detach().double().cpu().requires_grad_() for t in (x, weight, bias)]
    z = functional.silu(functional.batch_norm(exact[0], None, None, *exact[1:], True))
    return torch.autograd.grad(z, exact, g.double().cpu())


def test_a_norm_that_learns_nothing_is_computed_as_in_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    from covpool.kernels import batch_norm as kernels

    serve_anywhere(monkeypatch, "batch_norm")
    calls = []
    inference = kernels.inference_eager
    monkeypatch.setattr(kernels, "inference_eager", lambda *given: calls.append(1) or inference(*given))
    x, weight, bias, running = inputs()
    for learns in (False, True):
        y = ops.batch_norm(x, weight.requires_grad_(learns), bias, running, training=False)
        assert y.requires_grad == learns and len(calls) == 1


def test_hooks_may_change_the_layout_of_saved_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    serve_anywhere(monkeypatch, "batch_norm")
    x, weight, bias = (t.requires_grad_() for t in inputs()[:3])
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = ops.batch_norm(x, weight, bias, None, training=True, activation="silu")
    g = randn(*x.shape, seed=9)
    found = torch.autograd.grad(y, (x, weight, bias), g)
    for ours, truth in zip(found, gradients(x, weight, bias, g), strict=True):
        assert relative_error(ours.cpu(), truth) <= 2e-6


def test_gradients_for_several_upstream_gradients_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    serve_anywhere(monkeypatch, "batch_norm")
    x, weight, bias = (t.requires_grad_() for t in inputs()[:3])
    y = ops.batch_norm(x, weight, bias, None, training=True, activation="silu")
    g = randn(3, *x.shape, seed=9)
    together = torch.autograd.grad(y, (x, weight, bias), g, is_grads_batched=True)
    for i, one in enumerate(g):
        for ours, truth in zip(together, gradients(x, weight, bias, one), strict=True):
            assert relative_error(ours[i].cpu(), truth) <= 2e-6


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_forward_mode(monkeypatch: pytest.MonkeyPatch, training: bool, grad: bool) -> None:
    serve_anywhere(monkeypatch, "batch_norm")
    x, weight, bias, running = inputs()
    used = None if training else running
    with torch.set_grad_enabled(grad), forward_ad.dual_level():
        y = ops.batch_norm(forward_ad.make_dual(x, randn(*x.shape, seed=9)), weight, bias, used, training=training)
        z = functional.batch_norm(
            forward_ad.make_dual(x.double(), randn(*x.shape, seed=9).double()),
            *((None, None) if used is None else (t.double() for t in used[:2])),
            weight.double(),
            bias.double(),
            training,
        )
        ours, truth = (forward_ad.unpack_dual(t).tangent for t in (y, z))
    assert ours is not None and relative_error(ours, truth) <= 2e-6


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_training_step_on_a_gpu(dtype: torch.dtype) -> None:
    x, weight, bias, running = inputs(144)
    x = x.to(dtype).requires_grad_()
    weight.requires_grad_()
    bias.requires_grad_()
    g = randn(*x.shape, seed=9).to(dtype)  # its layout is another one
    y = ops.batch_norm(x, weight, bias, running, training=True, activation="relu6")
    found = torch.autograd.grad(y, (x, weight, bias), g)
    exact = [t.detach().double().cpu().requires_grad_() for t in (x, weight, bias)]
    z = functional.batch_norm(exact[0], None, None, *exact[1:], True)
    expected = torch.autograd.grad(functional.relu6(z), exact, g.double().cpu())
    for ours, truth in zip((y, *found), (functional.relu6(z), *expected), strict=True):
        assert relative_error(ours.cpu(), truth) <= (1.5e-2 if dtype == torch.bfloat16 else 2e-6)
