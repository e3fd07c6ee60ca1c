"""covpool.kernels.products: Gram matrices and products with their transposes; the rest is tested through the root."""

import pytest
import torch

from covpool.kernels import isqrt
from covpool.kernels.launch import Chain
from covpool.kernels.precision import mode
from kernels.oracles import LARGEST_ERROR, randn, split
from ops.oracles import relative_error


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_gram_is_scaled(precision: str) -> None:
    m = mode(precision, 5)
    run = Chain(2, 20, 5, m, randn(1))
    x = randn(2, run.size, run.tiling.inner) * 0.1
    operand = split(x * m.k_scale, m.storage, m.parts)
    a = run.empty(2)
    run.gram(operand, operand, a)
    assert not run.counters.any()
    gram = x.double() @ x.double().mT
    assert relative_error(a.double().sum(1) / m.y_scale, gram) <= LARGEST_ERROR[precision]


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_product_and_its_transpose(precision: str, transposed: bool) -> None:
    m = mode(precision, 5)
    run = Chain(2, 20, 5, m, randn(1))
    width = 2 * run.tiling.channel_tile
    x, z = randn(2, width, run.size), randn(2, run.size, run.size, seed=1)
    out = x.new_empty(2, m.parts, width, run.size, dtype=m.storage)
    out_t = out.new_empty(2, m.parts, run.size, width)
    isqrt._product(split(x, m.storage, m.parts), split(z, m.storage, m.parts), out, out_t if transposed else None, run)
    assert relative_error(out.double().sum(1), x.double() @ z.double().mT) <= LARGEST_ERROR[precision]
    assert torch.equal(out_t, out.mT) if transposed else out_t.isnan().all()
