"""Generated cases for every pool: a batch is its items, a mask is slicing, strides and compilation change nothing."""

import copy

import pytest
import torch
from torch import Tensor

import covpool
from covpool.pools._normalize import ElementwisePower
from generated import SEEDS, Case, draw, relative_error

pytestmark = pytest.mark.long

SAME = 1e-6  # relative, in float64: the order of sums may change, and a decomposition amplifies it
COMPILED = 20  # every so many cases, one is compiled


def make(name: str, seed: int, case: Case) -> covpool.Pool:
    """A float64 pool in evaluation mode, with or without a reduction and a normalization."""
    torch.manual_seed(seed)
    channels = case.x.shape[-1]
    options: dict[str, object] = {"layout": "tokens"}
    if seed % 3 == 1:
        options["reduce_to"] = max(2, channels // 2)
    if seed % 4 == 2:
        options["normalize"] = ("epn", "l2")[seed // 4 % 2]
    pool = covpool.create_pool(name, channels, **options)
    for key, value in pool.state_dict().items():
        if value.is_floating_point():
            value += 0.1 * torch.rand_like(value) + (0.1 if "running" in key else 0)
    return pool.double().eval()


def difference(actual: Tensor, expected: Tensor, pool: covpool.Pool) -> float:
    """The relative error. A signed square root is undone first: it makes 1e-8 of an entry that is 1e-16 for zero."""
    if any(isinstance(module, ElementwisePower) for module in pool.normalize):
        actual, expected = actual * actual.abs(), expected * expected.abs()
    return relative_error(actual, expected)


def value_and_gradient(pool: covpool.Pool, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    x = x.detach().requires_grad_()
    z = pool(x) if mask is None else pool(x, mask=mask)
    direction = torch.linspace(-1, 1, z.numel(), dtype=z.dtype).reshape(z.shape)
    return z.detach(), torch.autograd.grad((z * direction).sum(), x)[0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", covpool.list_pools())
def test_a_generated_case(name: str, seed: int) -> None:
    case = draw(seed * 1000 + covpool.list_pools().index(name))
    pool, (x, mask, stored, _, about) = make(name, seed, case), case
    z, dx = value_and_gradient(pool, x)
    assert z.isfinite().all() and dx.isfinite().all(), about
    alone = torch.cat([pool(item[None]) for item in x])
    assert difference(z, alone, pool) <= SAME, f"{about}: batch against items"
    assert difference(pool(stored), z, pool) <= SAME, f"{about}: strides"
    masked, dx = value_and_gradient(pool, x.masked_fill(~mask[..., None], torch.nan), mask)
    sliced = torch.cat([pool(item[keep][None]) for item, keep in zip(x, mask, strict=True)])
    assert difference(masked, sliced, pool) <= SAME, f"{about}: mask against slicing"
    assert dx.isfinite().all() and not dx[~mask].any(), f"{about}: gradient of masked positions"
    check_low_precision(pool, case)
    if seed % COMPILED == 0:
        torch._dynamo.reset()
        compiled = torch.compile(pool, fullgraph=True, backend="aot_eager")
        assert difference(compiled(x), z, pool) <= SAME, f"{about}: compiled against eager"


def check_low_precision(pool: covpool.Pool, case: Case) -> None:
    """Float32 is finite, and half precision gives what float32 gives for the same values."""
    single = copy.deepcopy(pool).float()
    x = (case.x / case.scale).float()
    z, dx = value_and_gradient(single, x)
    assert z.dtype == torch.float32 and z.isfinite().all() and dx.isfinite().all(), case.about
    for dtype in (torch.float16, torch.bfloat16):
        half = x.to(dtype)
        assert torch.equal(single(half), single(half.float())), f"{case.about}: {dtype}"
