"""Multiply-adds of a network, counted in two ways: as we run it, and as the paper counts."""

import math
import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool.models._dry_run import without_memory
from covpool.models._network import Network
from covpool.pools import Pool, pool_info, pool_name

PAPER_POOLS = ("cov", "mpn", "isqrt", "gaussian")  # the paper's own
PAPER_PRODUCTS = 6  # c x c products of the square root: the schedule of N = 3, or that of N = 5 at half by symmetry


@dataclass(frozen=True)
class Cost:
    """Multiply-adds per image.

    Attributes:
        layers: of the convolutions, linear layers and attention, by torch's own counter.
        pooling: of the pool's mathematics, by the formula that `covpool.pool_info` states.
        paper: of the whole in the paper's accounting: a bottleneck's stride in its first 1x1 convolution, the centring
            of the covariance as a product with an n x n matrix, six c x c products for the square root.
    """

    layers: int
    pooling: int
    paper: int

    @property
    def total(self) -> int:
        return self.layers + self.pooling


def cost(network: Network, image: tuple[int, ...] = (3, 224, 224)) -> Cost:
    """Count the multiply-adds of one image (channels, h, w). Nothing is computed: the count runs on the meta device.

    Reference: "Deep CNNs Meet Global Covariance Pooling", Appendix III.

    >>> import covpool
    >>> found = cost(covpool.create_model("resnet18"))
    >>> f"{found.total / 1e9:.3f} {found.paper / 1e9:.3f}"
    '1.814 1.814'
    """
    copy = without_memory(network).eval()
    layers, n, c = _count_layers(copy, image)
    stated = round(stated_cost(network.pool, n, c))
    _stride_in_first_convolution(copy)
    paper, n, c = _count_layers(copy, image)
    paper += _paper_pooling(network.pool, n, c)
    return Cost(layers, stated, paper)


def stated_cost(pool: Pool, n: int, c: int) -> float:
    """The formula of `pool_info(...).cost` for n positions and c channels after reduction.

    >>> import covpool
    >>> stated_cost(covpool.create_pool("isqrt", 64), n=49, c=64) == 49 * 64**2 + 12 * 49**3
    True
    """
    name = pool_name(pool)
    if name is None:
        return 0.0
    known: dict[str, Any] = {**vars(pool), **getattr(pool, "options", {}), "n": n, "c": c, "min": min, "log": math.log2}
    known["N"] = known.get("iterations")
    formula = pool_info(name).cost
    try:
        return float(eval(_as_python(formula), {"__builtins__": {}}, known))
    except (NameError, SyntaxError, TypeError) as error:
        raise CovpoolError(
            f"the cost of pool {name!r} must be a formula in n, c and options of the pool (N is iterations); "
            f"got {formula!r}: {error}"
        ) from error


def _as_python(formula: str) -> str:
    """A formula as we write it ("n c^2 + about 10 c^3 (eigen-decomposition)") as a Python expression."""
    formula = re.sub(r"\([a-z][a-z -]{3,}\)|\babout\b", "", formula).replace("^", "**").strip()
    return re.sub(r"(?<=[\w)])\s+(?=[\w(])", " * ", formula)


def _count_layers(network: Network, image: tuple[int, ...]) -> tuple[int, int, int]:
    """Multiply-adds outside the pool's mathematics, and the positions and channels which that gets."""
    from torch.utils.flop_counter import FlopCounterMode  # it imports triton, which `import covpool` shall not

    pool, seen = network.pool, {}
    length = pool.project.in_channels if isinstance(pool.project, nn.Conv1d) else pool.out_features

    def only_shapes(*x: Tensor, **positions: Any) -> Tensor:
        seen["n"], seen["c"] = x[0].shape[-2:]
        return x[0].new_empty(x[0].shape[0], length)

    pool._pool = only_shapes  # type: ignore[method-assign]
    parameter = next(network.parameters())
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        network(torch.empty(1, *image, dtype=parameter.dtype, device="meta"))
    return counter.get_total_flops() // 2, seen["n"], seen["c"]


def _stride_in_first_convolution(network: nn.Module) -> None:
    """Move the stride of every bottleneck from its 3x3 convolution to the 1x1 before it, as in the first ResNets."""
    for block in network.modules():
        first, second = getattr(block, "conv1", None), getattr(block, "conv2", None)
        if isinstance(first, nn.Conv2d) and isinstance(second, nn.Conv2d) and first.kernel_size == (1, 1):
            first.stride, second.stride = second.stride, first.stride


def _paper_pooling(pool: Pool, n: int, c: int) -> int:
    """The pool in the paper's accounting: first order is free, other systems count as they state."""
    name = pool_name(pool)
    if name in PAPER_POOLS:
        return c * n**2 + c**2 * n + PAPER_PRODUCTS * c**3
    return 0 if name is None or pool_info(name).order == "1" else round(stated_cost(pool, n, c))
