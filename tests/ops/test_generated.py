"""Generated cases for every operation: the slow version, items of a batch, strides, forms and compilation agree."""

from functools import partial
from itertools import product

import pytest
import torch

from covpool import ops
from generated import SEEDS, draw, relative_error
from ops.operations import OPERATIONS
from ops.oracles import value_and_gradient

pytestmark = pytest.mark.long

NAMES = list(OPERATIONS)
SAME = 1e-6  # relative, in float64: the order of sums may change, and a decomposition amplifies it
EXACT = 1e-7  # relative to the slow version, times the operation's own condition


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_generated_case(name: str, seed: int) -> None:
    entry = OPERATIONS[name]
    # An operation with a fixed eps or fixed bounds is made for features near one.
    x, _, stored, _, about = draw(seed * 1000 + NAMES.index(name), scales=4 if entry.degree is not None else 0.5)
    z, dx = value_and_gradient(entry.fast, x)
    assert z.isfinite().all() and dx.isfinite().all(), about
    expected = torch.stack([entry.slow(item) for item in x])
    assert relative_error(z, expected) <= EXACT * entry.condition, f"{about}: slow version"
    alone = torch.cat([entry.fast(item[None]) for item in x])
    assert relative_error(z, alone) <= SAME, f"{about}: batch against items"
    assert relative_error(entry.fast(stored), z) <= SAME, f"{about}: strides"
    if seed % 20 == 0:
        torch._dynamo.reset()
        compiled = torch.compile(entry.fast, fullgraph=True, backend="aot_eager")
        assert relative_error(compiled(x), z) <= SAME, f"{about}: compiled against eager"


KINDS, SHAPES = ("trace", "frobenius"), product((True, False), (3, 5))
ISQRT = [{"prenorm": kind, "postcomp": p, "iterations": i} for kind, (p, i) in product(KINDS, SHAPES)]
POWERS = [{"alpha": a, "normalization": n} for a, n in product((0.3, 0.5, 1.0), (None, "spectral", "frobenius"))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("options", [*ISQRT, *POWERS], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_primal_is_dual(options: dict[str, object], seed: int, masked: bool) -> None:
    x, mask, _, _, about = draw(seed * 100 + [*ISQRT, *POWERS].index(options))
    operation = ops.isqrt_covariance if options in ISQRT else ops.powm_covariance
    given = {**options, "mask": mask if masked else None}
    (z, dx), (dual, dual_dx) = (
        value_and_gradient(partial(operation, form=form, **given), x) for form in ("primal", "dual")
    )
    assert relative_error(dual, z) <= SAME, f"{about}, {options}"
    assert relative_error(dual_dx, dx) <= 1e-4, f"{about}, {options}: gradient"
