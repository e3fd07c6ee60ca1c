"""The launches of the chain for matrices of one order: on the chip, by one program per matrix, or step by step."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from covpool.kernels import chain, products
from covpool.kernels.gpu import shared_memory
from covpool.kernels.precision import Mode
from covpool.kernels.resident import resident_chain_kernel, resident_pair_chain_kernel
from covpool.kernels.shape import Tiling, one_program_per_matrix, padded, stays_on_chip, tiling

PLAIN, HALVED, TRIANGLE, MATRIX = (kind.value for kind in (chain.PLAIN, chain.HALVED, chain.TRIANGLE, chain.MATRIX))

M = TypeVar("M")  # matrices in memory, or a pair of them with their derivatives


class Chain:
    """The chain on matrices of one order: its workspace, its launches.

    Args:
        b: how many matrices.
        order: of a matrix; they are padded to whole tiles.
        iterations: N.
        m: how operands are stored.
        like: a tensor on the device.
    """

    def __init__(self, b: int, order: int, iterations: int, m: Mode, like: Tensor) -> None:
        self.b, self.iterations, self.mode = b, iterations, m
        room = shared_memory(like.device)
        self.tiling: Tiling = tiling(order, m.parts, room)
        self.size = padded(order, self.tiling.tile)
        self.items = math.comb(self.size // self.tiling.tile + 1, 2)
        self.on_chip = stays_on_chip(order, m.parts, room)
        self.like = like
        self.half = 0.5 / m.y_scale

    def empty(self, *lead: int) -> Tensor:
        return self.like.new_empty(*lead, self.mode.parts, self.size, self.size, dtype=self.mode.storage)

    def slots(self, count: int) -> Tensor | None:
        """Room for the iterates: Y, P, T and a free one, then their derivatives; None where they stay on the chip."""
        return None if self.on_chip else self.empty(self.b, count)

    def constants(self, stages: int) -> dict[str, Any]:
        t = self.tiling
        return {
            "SIZE": self.size, "PARTS": self.mode.parts, "T": t.tile, "BK": t.inner, "num_warps": t.warps,
            "num_stages": stages,
        }  # fmt: skip

    def gram(self, x: Tensor, z: Tensor, a: Tensor, slot: Tensor | None, identity: float) -> None:
        """For x, z stored k_scale times too large: a = y_scale x z^T and slot = identity I - x z^T / 2."""
        shrink = 1 / self.mode.k_scale**2
        start = a if slot is None else slot
        products.gram_kernel[(self.items, self.b)](
            x, z, a, start, x.stride(0), x.stride(2), x.stride(1), x.shape[3], start.stride(0),
            self.mode.y_scale * shrink, 0.5 * shrink, identity,
            START=slot is not None, **self.constants(self.tiling.stages),
        )  # fmt: skip

    def value(self, a: Tensor, slots: Tensor | None, out: Tensor, scales: Tensor, c: int, last: int) -> None:
        """The factor (last = PLAIN) or the scaled root (TRIANGLE, MATRIX); slot 1 holds P_1."""
        if slots is None:
            resident_chain_kernel[(self.b,)](
                a, out, scales, c, out.stride(0), self.half, self.iterations,
                LAST=last, T=self.size, num_warps=self.tiling.warps,
            )  # fmt: skip
            return
        constants = self.constants(self.tiling.stages)
        if one_program_per_matrix(self.b):
            chain.chain_kernel[(self.b,)](
                a, slots, out, scales, c, out.stride(0), self.half, self.iterations, LAST=last, **constants
            )
            return

        def step(x: Tensor, z: Tensor, into: Tensor, kind: int) -> None:
            chain.value_step_kernel[(self.items, self.b)](
                x, z, into, scales, c, x.stride(0), z.stride(0), into.stride(0), self.half, KIND=kind, **constants
            )

        y, p, t = self._iterate(step, a, slots.unbind(1))
        step(p if last == PLAIN else y, t, out, last)

    def pair(self, a: Tensor, h: Tensor, slots: Tensor | None, factor: bool) -> tuple[Tensor, Tensor, Tensor]:
        """F (for the factor), dF[H], and per tile the shares of <H, F> and <dF, A>; slots 1 and 5 hold P_1 and dP_1."""
        sums = self.like.new_empty(self.b, self.items, 2, dtype=torch.float32)
        df = self.empty(self.b)
        f = self.empty(self.b) if factor else df
        f_scale, a_scale = (1.0 if factor else 1 / self.mode.y_scale), 1 / self.mode.y_scale
        if slots is None:
            resident_pair_chain_kernel[(self.b,)](
                a, h, f, df, sums, self.half, f_scale, a_scale, self.iterations,
                FACTOR=factor, T=self.size, num_warps=self.tiling.warps,
            )  # fmt: skip
        elif one_program_per_matrix(self.b):
            chain.pair_chain_kernel[(self.b,)](
                a, h, slots, f, df, sums, self.half, f_scale, a_scale, self.iterations,
                FACTOR=factor, **self.constants(self.tiling.pair_stages),
            )  # fmt: skip
        else:
            self._pair_steps(a, h, slots, f, df, sums, (f_scale, a_scale), factor)
        return f, df, sums

    def _pair_steps(
        self, a: Tensor, h: Tensor, slots: Tensor, f: Tensor, df: Tensor, sums: Tensor, scales: tuple[float, float],
        factor: bool,
    ) -> None:  # fmt: skip
        constants = self.constants(self.tiling.pair_stages)
        values = slots.unbind(1)

        def step(x: tuple[Tensor, Tensor], z: tuple[Tensor, Tensor], into: tuple[Tensor, Tensor], kind: int) -> None:
            chain.pair_step_kernel[(self.items, self.b)](
                *x, *z, *into, x[0].stride(0), z[0].stride(0), into[0].stride(0), self.half, KIND=kind, **constants
            )

        y, p, t = self._iterate(step, (a, h), list(zip(values[:4], values[4:], strict=True)))
        chain.last_pair_step_kernel[(self.items, self.b)](
            *(p if factor else y), *t, a, h, f, df, sums, t[0].stride(0), *scales, FACTOR=factor, **constants
        )

    def _iterate(self, step: Callable[[M, M, M, int], None], a: M, slots: Sequence[M]) -> tuple[M, M, M]:
        """All steps but the last product, each a launch; returns what it needs: Y, P and T."""
        y, p, t, free = slots
        step(a, p, y, PLAIN)
        for _ in range(self.iterations - 2):
            step(p, y, t, HALVED)
            step(y, t, free, PLAIN)
            step(t, p, y, PLAIN)
            y, p, free = free, y, p
        step(p, y, t, HALVED)
        return y, p, t
