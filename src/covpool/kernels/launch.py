"""The launches of the chain for matrices of one order: on the chip, by one program per matrix, or step by step."""

from typing import Any

import torch
from torch import Tensor

from covpool.kernels import chain, pair, products
from covpool.kernels.gpu import shared_memory
from covpool.kernels.iteration import count_steps
from covpool.kernels.precision import Mode
from covpool.kernels.resident import resident_chain_kernel, resident_pair_chain_kernel
from covpool.kernels.shape import (
    FEW_PAIR_PROGRAMS,
    FEW_PROGRAMS,
    Tiling,
    finer,
    one_program_per_matrix,
    padded,
    stays_on_chip,
    tiling,
    triangle_tiles,
)

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
        self.items = triangle_tiles(self.size, self.tiling.tile)
        self.on_chip = stays_on_chip(order, m.parts, room)
        self.like = like

    @property
    def value_tiling(self) -> Tiling:
        """Of the Gram matrix and the chain, step by step. Only when asked for: to compare a symbolic batch binds it."""
        return finer(self.tiling, self.b, self.size, FEW_PROGRAMS)

    @property
    def pair_tiling(self) -> Tiling:
        """Of the chain with its derivative, step by step."""
        return finer(self.tiling, self.b, self.size, FEW_PAIR_PROGRAMS)

    def empty(self, *lead: int) -> Tensor:
        return self.like.new_empty(*lead, self.mode.parts, self.size, self.size, dtype=self.mode.storage)

    def gram(self, x: Tensor, z: Tensor, a: Tensor) -> None:
        """For x, z stored k_scale times too large: a = y_scale x z^T, symmetric."""
        products.gram_kernel[self._grid(self.value_tiling)](
            x, z, a, x.stride(0), x.stride(2), x.stride(1), x.shape[3], self.mode.y_scale / self.mode.k_scale**2,
            **self._constants(self.value_tiling),
        )  # fmt: skip

    def value(self, a: Tensor, out: Tensor, scales: Tensor, c: int, kind: int) -> None:
        """The factor P_N (kind = OPERAND), or scales times the stored Y_N (TRIANGLE, MATRIX)."""
        if self.on_chip:
            resident_chain_kernel[(self.b,)](
                a, out, scales, c, out.stride(0), self.iterations, self.mode.y_scale,
                KIND=kind, T=self.size, num_warps=self.tiling.warps,
            )  # fmt: skip
            return
        slots = self.empty(self.b, 4)
        last = (scales, c, out.stride(0), self.iterations)
        if one_program_per_matrix(self.b):
            chain.chain_kernel[(self.b,)](
                a, slots, out, *last, self.steps, self.mode.y_scale, KIND=kind, **self._constants(self.tiling)
            )
            return
        grid, constants = self._grid(self.value_tiling), self._constants(self.value_tiling)
        for index in range(self.steps):
            chain.value_step_kernel[grid](
                a, slots, index, self.steps, self.mode.y_scale, FACTOR=kind == OPERAND, **constants
            )
        chain.last_value_step_kernel[grid](slots, out, *last, KIND=kind, **constants)

    def pair(self, a: Tensor, h: Tensor, factor: bool) -> tuple[Tensor, Tensor, Tensor]:
        """F (for the factor), dF[H], and per tile the shares of <H, F> and <dF, A>."""
        whole = self.on_chip or one_program_per_matrix(self.b)
        t = self.tiling if whole else self.pair_tiling
        sums = self.like.new_empty(self.b, triangle_tiles(self.size, t.tile), 2, dtype=torch.float32)
        df = self.empty(self.b)
        f = self.empty(self.b) if factor or self.on_chip else df
        scales = (1.0 if factor else 1 / self.mode.y_scale), self.mode.y_scale
        if self.on_chip:
            resident_pair_chain_kernel[(self.b,)](
                a, h, f, df, sums, self.iterations, *scales, FACTOR=factor, T=self.size, num_warps=self.tiling.warps
            )
            return f, df, sums
        slots = self.empty(self.b, 8)
        constants = {"FACTOR": factor, **self._constants(t)}
        if whole:
            pair.pair_chain_kernel[(self.b,)](
                a, h, slots, f, df, sums, self.iterations, self.steps, *scales, **constants
            )
            return f, df, sums
        for index in range(self.steps):
            pair.pair_step_kernel[self._grid(t)](a, h, slots, index, self.steps, self.mode.y_scale, **constants)
        pair.last_pair_step_kernel[self._grid(t)](a, h, slots, f, df, sums, self.iterations, *scales, **constants)
        return f, df, sums

    def _grid(self, t: Tiling) -> tuple[int, int]:
        return triangle_tiles(self.size, t.tile), self.b

    def _constants(self, t: Tiling) -> dict[str, Any]:
        return {
            "SIZE": self.size, "PARTS": self.mode.parts, "T": t.tile, "BK": t.inner, "num_warps": t.warps,
            "num_stages": t.stages,
        }  # fmt: skip
