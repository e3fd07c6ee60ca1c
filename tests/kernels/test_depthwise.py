"""covpool.kernels.depthwise: value and gradients against torch in float64."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from covpool.kernels import depthwise
from covpool.ops.depthwise_convolution import _size
from kernels.oracles import randn
from ops.oracles import relative_error

ERROR = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
CASES = [  # map, filter, stride, padding, dilation
    ((2, 5, 9, 11), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 40, 10, 7), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((1, 72, 12, 9), (5, 5), (2, 1), (2, 2), (1, 1)),
    ((3, 16, 7, 8), (3, 5), (1, 2), (0, 3), (2, 1)),
    ((2, 8, 6, 6), (2, 1), (3, 2), (1, 0), (1, 1)),
    ((1, 1, 1, 1), (3, 3), (1, 1), (1, 1), (1, 1)),
]


def last(t: Tensor, dtype: torch.dtype) -> Tensor:
    return t.to(dtype).contiguous(memory_format=torch.channels_last)


def compare(found: Tensor, truth: Tensor, dtype: torch.dtype) -> None:
    assert found.dtype == dtype and found.shape == truth.shape
    assert relative_error(found.cpu(), truth) <= ERROR[dtype]


@pytest.mark.parametrize("dtype", ERROR)
@pytest.mark.parametrize(("shape", "sides", "stride", "padding", "dilation"), CASES)
def test_value_and_gradients(
    shape: tuple[int, ...],
    sides: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    dtype: torch.dtype,
) -> None:
    options = stride, padding, dilation
    x, weight = last(randn(*shape), dtype), randn(shape[1], 1, *sides, seed=1)
    size = _size(x, weight, *options)
    exact = [t.detach().cpu().double().requires_grad_() for t in (x, weight)]
    y = functional.conv2d(*exact, None, *options, groups=shape[1])
    found, taps = depthwise.forward_eager(x, weight, size, *options)
    compare(found, y, dtype)
    assert found.is_contiguous(memory_format=torch.channels_last)
    g = last(randn(*y.shape, seed=2), dtype)
    dx, dweight = torch.autograd.grad(y, exact, g.cpu().double())
    for _ in range(2):  # the second call repeats the recorded launches
        compare(depthwise.input_gradient_eager(g, weight, taps, shape[2:], *options), dx, dtype)  # type: ignore[arg-type]
        compare(depthwise.filter_gradient_eager(x, g, weight, *options), dweight, torch.float32)


def test_many_shares_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depthwise, "multiprocessors", lambda device: 5)
    x, g, weight = (
        last(randn(3, 40, 9, 8), torch.float32),
        last(randn(3, 40, 9, 8, seed=1), torch.float32),
        randn(40, 1, 3, 3),
    )
    options = (1, 1), (1, 1), (1, 1)
    exact = weight.cpu().double().requires_grad_()
    y = functional.conv2d(x.cpu().double(), exact, None, *options, groups=40)
    (truth,) = torch.autograd.grad(y, exact, g.cpu().double())
    compare(depthwise.filter_gradient_eager(x, g, weight, *options), truth, torch.float32)


def test_filters_in_half_precision_get_gradients_in_half_precision() -> None:
    x, g = (last(randn(2, 8, 5, 5, seed=i), torch.bfloat16) for i in range(2))
    found = depthwise.filter_gradient_eager(x, g, randn(8, 1, 3, 3).bfloat16(), (1, 1), (1, 1), (1, 1))
    assert found.dtype == torch.bfloat16 and found.shape == (8, 1, 3, 3)


def test_gradients_of_filters_have_the_strides_of_the_filters() -> None:
    x, g = (last(randn(2, 8, 5, 5, seed=i), torch.float32) for i in range(2))
    weight = randn(8, 1, 3, 3).to(memory_format=torch.channels_last)
    found = depthwise.filter_gradient_eager(x, g, weight, (1, 1), (1, 1), (1, 1))
    assert found.stride() == weight.stride() != randn(8, 1, 3, 3).stride()


def test_nan_stays_in_its_channel_and_neighbourhood() -> None:
    x, weight = last(randn(1, 8, 9, 9), torch.float32), randn(8, 1, 3, 3)
    x[0, 3, 4, 4] = torch.nan
    y, _ = depthwise.forward_eager(x, weight, (9, 9), (1, 1), (1, 1), (1, 1))
    wrong = y.isnan()
    assert wrong[0, 3, 3:6, 3:6].all() and int(wrong.sum()) == 9
