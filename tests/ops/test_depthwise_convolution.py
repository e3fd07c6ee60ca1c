"""covpool.ops.depthwise_convolution: torch's convolution, and which cases the kernels compute."""

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional

from covpool import ops
from covpool.ops.depthwise_convolution import _size
from kernels.oracles import DEVICE, randn
from ops.oracles import assert_gradient, relative_error, serve_anywhere

needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
OPTIONS = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}


def inputs(c: int = 6) -> tuple[Tensor, Tensor]:
    return randn(3, c, 8, 9).contiguous(memory_format=torch.channels_last), randn(c, 1, 3, 3, seed=1)


def test_value() -> None:
    x, weight = inputs()
    expected = functional.conv2d(x.double(), weight.double(), None, *OPTIONS.values(), groups=6)
    assert relative_error(ops.depthwise_convolution(x, weight, **OPTIONS), expected) <= 1e-6
    assert _size(x, weight, *OPTIONS.values()) == expected.shape[2:]


def test_gradient() -> None:
    x, weight = (t.double().cpu() for t in inputs())
    assert_gradient(lambda x: ops.depthwise_convolution(x, weight, **OPTIONS), x, step=1e-6)
    assert_gradient(lambda weight: ops.depthwise_convolution(x, weight, **OPTIONS), weight, step=1e-6)


def test_a_map_with_other_channels_is_refused_as_by_torch() -> None:
    x, weight = inputs()
    with pytest.raises(RuntimeError, match="to have 6 channels, but got 3"):
        ops.depthwise_convolution(x[:, :3], weight)


def test_the_kernels_compute_what_they_support(monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve_anywhere(monkeypatch, "depthwise_convolution")
    x, weight = inputs()
    options = tuple(OPTIONS.values())
    assert served(x, weight, *options)
    assert not served(x.contiguous(), weight, *options)
    assert not served(x.double(), weight, *options)
    assert not served(x[:0], weight, *options)
    assert not served(x, randn(6, 1, 9, 9), (1, 1), (4, 4), (1, 1))
    assert not served(x, randn(12, 1, 3, 3), *options)
    assert not served(x, weight.to("meta"), *options)


def gradients(x: Tensor, weight: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    """The gradients by torch in float64."""
    exact = [t.detach().double().requires_grad_() for t in (x, weight)]
    z = functional.conv2d(*exact, None, *OPTIONS.values(), groups=len(weight))
    return torch.autograd.grad(z, exact, g.double())


def test_hooks_may_change_the_layout_of_saved_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    serve_anywhere(monkeypatch, "depthwise_convolution")
    x, weight = (t.requires_grad_() for t in inputs())
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = ops.depthwise_convolution(x, weight, **OPTIONS)
    g = randn(*y.shape, seed=9)
    for ours, truth in zip(torch.autograd.grad(y, (x, weight), g), gradients(x, weight, g), strict=True):
        assert relative_error(ours, truth) <= 1e-6


def test_gradients_for_several_upstream_gradients_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    serve_anywhere(monkeypatch, "depthwise_convolution")
    x, weight = (t.requires_grad_() for t in inputs())
    y = ops.depthwise_convolution(x.bfloat16(), weight, **OPTIONS)
    g = randn(3, *y.shape, seed=9).bfloat16()
    together = torch.autograd.grad(y, (x, weight), g, is_grads_batched=True)
    for i, one in enumerate(g):
        for ours, truth in zip(together, gradients(x.bfloat16(), weight, one), strict=True):
            assert relative_error(ours[i], truth) <= 8e-3


def test_forward_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    serve_anywhere(monkeypatch, "depthwise_convolution")
    x, weight = inputs()
    with torch.no_grad(), forward_ad.dual_level():
        y = ops.depthwise_convolution(forward_ad.make_dual(x, x * x), weight, **OPTIONS)
        tangent = forward_ad.unpack_dual(y).tangent
    assert tangent is not None and relative_error(tangent, ops.depthwise_convolution(x * x, weight, **OPTIONS)) <= 1e-6


@needs_gpu
@pytest.mark.parametrize("c", [6, 144])
def test_a_training_step_on_a_gpu_under_autocast(c: int) -> None:
    x, weight = (t.requires_grad_() for t in inputs(c))
    with torch.autocast("cuda", torch.bfloat16):
        y = ops.depthwise_convolution(x, weight, **OPTIONS)
    assert y.dtype == torch.bfloat16
    g = randn(*y.shape, seed=9).bfloat16()  # its layout is another one
    found = torch.autograd.grad(y, (x, weight), g)
    exact = [x.detach().bfloat16().double().requires_grad_(), weight.detach().double().requires_grad_()]
    z = functional.conv2d(*exact, None, *OPTIONS.values(), groups=c)
    for ours, truth in zip((y, *found), (z, *torch.autograd.grad(z, exact, g.double())), strict=True):
        assert relative_error(ours, truth) <= 8e-3
