"""The launches of the chain for matrices of one order: on the chip, by one program per matrix, or step by step."""

import math
from typing import Any

import torch
from torch import Tensor

from covpool.kernels import chain, pair, products
from covpool.kernels.gpu import shared_memory
from covpool.kernels.iteration import count_steps
from covpool.kernels.precision import Mode
from covpool.kernels.resident import resident_chain_kernel, resident_pair_chain_kernel
from covpool.kernels.shape import Tiling, one_program_per_matrix, padded, stays_on_chip, tiling

OPERAND, TRIANGLE, MATRIX = (kind.value for kind in (chain.OPERAND, chain.TRIANGLE, chain.MATRIX))


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
        self.steps = count_steps(iterations)
        room = shared_memory(like.device)
        self.tiling: Tiling = tiling(order, m.parts, room)
        self.size = padded(order, self.tiling.tile)
        self.items = math.comb(self.size // self.tiling.tile + 1, 2)
        self.on_chip = stays_on_chip(order, m.parts, room)
        self.like = like

    def empty(self, *lead: int) -> Tensor:
        return self.like.new_empty(*lead, self.mode.parts, self.size, self.size, dtype=self.mode.storage)

    def gram(self, x: Tensor, z: Tensor, a: Tensor) -> None:
        """For x, z stored k_scale times too large: a = y_scale x z^T, symmetric."""
        products.gram_kernel[(self.items, self.b)](
            x, z, a, x.stride(0), x.stride(2), x.stride(1), x.shape[3], self.mode.y_scale / self.mode.k_scale**2,
            **self._constants(),
        )  # fmt: skip

    def value(self, a: Tensor, out: Tensor, scales: Tensor, c: int, kind: int) -> None:
        """The factor P_N (kind = OPERAND), or scales times the stored Y_N (TRIANGLE, MATRIX)."""
        if self.on_chip:
            resident_chain_kernel[(self.b,)](
                a, out, scales, c, out.stride(0), self.iterations, self.mode.y_scale,
                KIND=kind, T=self.size, num_warps=self.tiling.warps,
            )  # fmt: skip
            return
        slots, constants = self.empty(self.b, 4), self._constants()
        last = (scales, c, out.stride(0), self.iterations)
        if one_program_per_matrix(self.b):
            chain.chain_kernel[(self.b,)](a, slots, out, *last, self.steps, self.mode.y_scale, KIND=kind, **constants)
            return
        for index in range(self.steps):
            chain.value_step_kernel[(self.items, self.b)](
                a, slots, index, self.steps, self.mode.y_scale, FACTOR=kind == OPERAND, **constants
            )
        chain.last_value_step_kernel[(self.items, self.b)](slots, out, *last, KIND=kind, **constants)

    def pair(self, a: Tensor, h: Tensor, factor: bool) -> tuple[Tensor, Tensor, Tensor]:
        """F (for the factor), dF[H], and per tile the shares of <H, F> and <dF, A>."""
        sums = self.like.new_empty(self.b, self.items, 2, dtype=torch.float32)
        df = self.empty(self.b)
        f = self.empty(self.b) if factor or self.on_chip else df
        scales = (1.0 if factor else 1 / self.mode.y_scale), self.mode.y_scale
        if self.on_chip:
            resident_pair_chain_kernel[(self.b,)](
                a, h, f, df, sums, self.iterations, *scales, FACTOR=factor, T=self.size, num_warps=self.tiling.warps
            )
            return f, df, sums
        slots = self.empty(self.b, 8)
        constants = {"FACTOR": factor, **self._constants()}
        if one_program_per_matrix(self.b):
            pair.pair_chain_kernel[(self.b,)](
                a, h, slots, f, df, sums, self.iterations, self.steps, *scales, **constants
            )
            return f, df, sums
        for index in range(self.steps):
            pair.pair_step_kernel[(self.items, self.b)](a, h, slots, index, self.steps, self.mode.y_scale, **constants)
        pair.last_pair_step_kernel[(self.items, self.b)](
            a, h, slots, f, df, sums, self.iterations, *scales, **constants
        )
        return f, df, sums

    def _constants(self) -> dict[str, Any]:
        t = self.tiling
        return {
            "SIZE": self.size, "PARTS": self.mode.parts, "T": t.tile, "BK": t.inner, "num_warps": t.warps,
            "num_stages": t.stages,
        }  # fmt: skip
