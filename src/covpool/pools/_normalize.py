"""Normalization of the pooled vector."""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from covpool._errors import check_choice
from covpool.ops import elementwise_power_normalize, unit_length

Normalize = Literal["epn", "l2", "bn"]
NORMALIZATIONS: tuple[Normalize, ...] = ("epn", "l2", "bn")


class ElementwisePower(nn.Module):
    """E-PN: the signed square root of every element, then unit length."""

    def forward(self, z: Tensor) -> Tensor:  # (b, d) -> (b, d)
        return elementwise_power_normalize(z)


class UnitLength(nn.Module):
    """z / |z|_2 for vectors of any length; zero stays zero."""

    def forward(self, z: Tensor) -> Tensor:  # (b, d) -> (b, d)
        return unit_length(z)


def make_normalization(chain: Normalize | Sequence[Normalize] | None, features: int) -> nn.Sequential:
    """Make the modules of a chain such as ("epn", "bn"), in order."""
    names = () if chain is None else (chain,) if isinstance(chain, str) else tuple(chain)
    modules: list[nn.Module] = []
    for name in names:
        check_choice("normalize", name, NORMALIZATIONS)
        if name == "bn":
            modules.append(nn.BatchNorm1d(features))
        else:
            modules.append(ElementwisePower() if name == "epn" else UnitLength())
    return nn.Sequential(*modules)
