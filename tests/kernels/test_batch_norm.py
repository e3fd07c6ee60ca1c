"""covpool.kernels.batch_norm: value, gradients and running statistics against torch in float64."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from covpool.kernels import batch_norm
from kernels.oracles import DEVICE, randn
from ops.oracles import relative_error

ACTIVATIONS = {"none": lambda z: z, "relu": functional.relu, "relu6": functional.relu6, "silu": functional.silu}
SHAPES = [(2, 5, 3, 4), (3, 40, 4, 7), (2, 64, 1, 1), (1, 24, 9, 5)]
EPS = 1e-3
HALF = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of rows and channels, and several shares, for small maps."""
    monkeypatch.setattr(batch_norm, "TILE", 64)
    monkeypatch.setattr(batch_norm, "SUMMED_BYTES", 256)
    monkeypatch.setattr(batch_norm, "MOST_CHANNELS", 16)
    monkeypatch.setattr(batch_norm, "LEAST_CHANNELS", 16)
    monkeypatch.setattr(batch_norm, "multiprocessors", lambda device: 3)


def problem(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """A map and a gradient with contiguous channels, and weight, bias, running mean and variance."""
    c = shape[1]
    x, g = ((randn(*shape, seed=i) * 2 + i + 1).to(dtype) for i in range(2))
    x, g = (t.contiguous(memory_format=torch.channels_last) for t in (x, g))
    return x, g, randn(c, seed=2) + 2, randn(c, seed=3) + 1, randn(c, seed=4), randn(c, seed=5).square()


def exact(x: Tensor, g: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, activation: str):
    x, weight, bias = (t.detach().cpu().double().requires_grad_() for t in (x, weight, bias))
    mean, variance = mean.cpu().double(), variance.cpu().double()
    y = ACTIVATIONS[activation](functional.batch_norm(x, mean, variance, weight, bias, True, 0.2, EPS))
    return y.detach(), mean, variance, *torch.autograd.grad(y, (x, weight, bias), g.cpu().double())


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_value_gradients_and_running_statistics(shape: tuple[int, ...], activation: str, dtype: torch.dtype) -> None:
    x, g, weight, bias, mean, variance = problem(shape, dtype)
    y, mean_now, variance_now, *gradients = exact(x, g, weight, bias, mean, variance, activation)
    batches = torch.tensor(3, device=DEVICE)
    found, *kept = batch_norm.forward_eager(x, weight, bias, (mean, variance, batches), 0.2, EPS, activation)
    assert found.dtype == dtype and found.stride() == x.stride()
    assert relative_error(found.cpu(), y) <= HALF[dtype]
    assert relative_error(mean.cpu(), mean_now) <= 1e-6
    assert relative_error(variance.cpu(), variance_now) <= 1e-6
    assert batches.item() == 4
    for ours, truth in zip(
        batch_norm.backward_eager(x, g, *kept, weight, bias, EPS, activation), gradients, strict=True
    ):
        assert relative_error(ours.cpu(), truth) <= (HALF[dtype] if ours.ndim == 4 else 5e-6)


def test_without_running_statistics_and_a_repeated_call() -> None:
    x, g, weight, bias, *_ = problem((3, 40, 4, 7), torch.float32)
    first, *kept = batch_norm.forward_eager(x, weight, bias, None, 0.2, EPS, "relu")
    again, *_ = batch_norm.forward_eager(x.clone(), weight, bias, None, 0.2, EPS, "relu")
    assert torch.equal(first, again)
    gradients = [batch_norm.backward_eager(x, g, *kept, weight, bias, EPS, "relu") for _ in range(2)]
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_inference_uses_the_given_statistics() -> None:
    x, _, weight, bias, mean, variance = problem((3, 40, 4, 7), torch.float32)
    found = batch_norm.inference_eager(x, weight, bias, mean, variance, EPS, "relu6")
    expected = functional.batch_norm(*(t.cpu().double() for t in (x, mean, variance, weight, bias)), False, 0.0, EPS)
    assert relative_error(found.cpu(), functional.relu6(expected)) <= 2e-6


@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_large_means_and_constant_channels_lose_no_accuracy(mean: float) -> None:
    x, _, weight, bias, *_ = problem((3, 16, 8, 9), torch.float32)
    x = x + mean
    x[:, 3] = 0.1
    _, average, variance = batch_norm.forward_eager(x, weight, bias, None, 0.2, EPS, "none")
    rows = x.cpu().double().permute(1, 0, 2, 3).flatten(1)
    assert relative_error(average.cpu(), rows.mean(1)) <= 1e-6
    assert ((variance.cpu() - rows.var(1, correction=0)).abs() <= 1e-6 * rows.var(1, correction=0) + 1e-14).all()


def test_nan_stays_in_its_channel() -> None:
    x, _, weight, bias, *_ = problem((2, 24, 3, 4), torch.float32)
    clean, *_ = batch_norm.forward_eager(x, weight, bias, None, 0.2, EPS, "relu6")
    x[1, 7, 2, 2] = torch.nan
    found, *_ = batch_norm.forward_eager(x, weight, bias, None, 0.2, EPS, "relu6")
    others = torch.arange(24) != 7
    assert found[:, 7].isnan().all() and torch.equal(found[:, others], clean[:, others])
