"""Launches of the chain for matrices of one order: on the chip, or through memory by teams of programs."""

import functools
from typing import Any

import torch
import triton
from torch import Tensor

from covpool.kernels import chain, pair, products, shape
from covpool.kernels.features import TINY
from covpool.kernels.gpu import multiprocessors, shared_memory
from covpool.kernels.iteration import count_steps
from covpool.kernels.plan import launch_kernel
from covpool.kernels.precision import Mode
from covpool.kernels.resident import resident_chain_kernel, resident_pair_chain_kernel
from covpool.kernels.shape import (
    Team,
    Tiling,
    finer,
    padded,
    stays_on_chip,
    team,
    tiling,
    triangle_tiles,
)
from covpool.kernels.tiles import INTERPRETED

OPERAND, TRIANGLE, MATRIX = (kind.value for kind in (chain.OPERAND, chain.TRIANGLE, chain.MATRIX))


class Chain:
    """The chain on matrices of one order, with its workspace.

    Args:
        b: Number of matrices.
        order: Order of a matrix. Matrices are padded to whole tiles.
        iterations: Number of iterations N.
        m: How operands are stored.
        like: Any tensor on the device.
        snug: Choose the tiles for little padding, which fixes a symbolic order.
    """

    def __init__(self, b: int, order: int, iterations: int, m: Mode, like: Tensor, snug: bool = False) -> None:
        self.b, self.iterations, self.mode = b, iterations, m
        self.steps = count_steps(iterations)
        self.room = shared_memory(like.device)
        t: Tiling = tiling(order, m.parts, self.room)
        self.tiling = shape.snug(t, order) if snug else t
        self.size = padded(order, self.tiling.tile)
        self.items = triangle_tiles(self.size, self.tiling.tile)
        self.on_chip = stays_on_chip(order, m.parts, self.room)
        self.like = like

    @functools.cached_property
    def counters(self) -> Tensor:
        """One counter per matrix, on which a team synchronizes. The kernel that writes a chain's input clears them."""
        return self.like.new_empty(self.b, dtype=torch.int32)

    def empty(self, *lead: int) -> Tensor:
        return self.like.new_empty(*lead, self.mode.parts, self.size, self.size, dtype=self.mode.storage)

    def gram(self, x: Tensor, z: Tensor, a: Tensor) -> None:
        """Compute the symmetric a = y_scale x z^T for x and z that are stored times k_scale. Clears the counters."""
        t = finer(self.tiling, self.b, self.size)
        launch_kernel(
            products.gram_kernel, (triangle_tiles(self.size, t.tile), self.b),
            x, z, a, self.counters, x.stride(0), x.stride(2), x.stride(1), x.shape[3],
            self.mode.y_scale / self.mode.k_scale**2, **self._constants(t),
        )  # fmt: skip

    def whitened_gram(self, kt: Tensor, squares: Tensor, a: Tensor, scales: Tensor, compensated: bool) -> None:
        """Compute a = y_scale A from the whitened K^T and the variances, and the scales of the root.

        Clears the counters.
        """
        t = finer(self.tiling, self.b, self.size)
        launch_kernel(
            products.whitened_gram_kernel, (triangle_tiles(self.size, t.tile), self.b),
            kt, squares, a, self.counters, scales, squares.shape[1], kt.stride(0), kt.stride(2), kt.stride(1),
            kt.shape[3], TINY, 1 / self.mode.k_scale, self.mode.y_scale, 1 / self.mode.y_scale,
            COMPENSATED=compensated, CHANNELS=triton.next_power_of_2(squares.shape[1]), **self._constants(t),
        )  # fmt: skip

    def value(self, a: Tensor, out: Tensor, scales: Tensor, c: int, kind: int) -> None:
        """Compute the factor P_N (kind OPERAND), or Y_N times `scales` (kinds TRIANGLE and MATRIX)."""
        if self.on_chip:
            launch_kernel(
                resident_chain_kernel, (self.b,),
                a, out, scales, c, out.stride(0), self.iterations, self.mode.y_scale,
                KIND=kind, T=self.size, num_warps=self.tiling.warps,
            )  # fmt: skip
            return
        by = self.team(copies=self.mode.parts)
        launch_kernel(
            chain.chain_kernel, (by.teams * by.members,),
            a, self.empty(by.teams, 4), self.counters, out, scales, self.b, c, out.stride(0),
            self.iterations, self.steps, self.mode.y_scale, KIND=kind, **self.shared(by),
        )  # fmt: skip

    def pair(self, a: Tensor, h: Tensor, factor: bool) -> tuple[Tensor, Tensor, Tensor]:
        """F (for the factor only), dF[H], and the parts of <H, F> and <dF, A> in each tile."""
        by = self.team(copies=2 * self.mode.parts)
        items = self.items if self.on_chip else triangle_tiles(self.size, by.tiling.tile)
        sums = self.like.new_empty(self.b, items, 2, dtype=torch.float32)
        df = self.empty(self.b)
        f = self.empty(self.b) if factor or self.on_chip else df
        scales = (1.0 if factor else 1 / self.mode.y_scale), self.mode.y_scale
        if self.on_chip:
            launch_kernel(
                resident_pair_chain_kernel, (self.b,), a, h, f, df, sums, self.iterations, *scales,
                FACTOR=factor, T=self.size, num_warps=self.tiling.warps,
            )  # fmt: skip
        else:
            launch_kernel(
                pair.pair_chain_kernel, (by.teams * by.members,),
                a, h, self.empty(by.teams, 8), self.counters, f, df, sums, self.b,
                self.iterations, self.steps, *scales, FACTOR=factor, **self.shared(by),
            )  # fmt: skip
        return f, df, sums

    def team(self, copies: int) -> Team:
        """Called only at a launch, because comparing a symbolic batch size would fix it."""
        processors = 0 if INTERPRETED.value else multiprocessors(self.like.device)
        return team(self.tiling, self.b, self.size, copies, processors, self.room)

    def _constants(self, t: Tiling) -> dict[str, Any]:
        return {
            "SIZE": self.size, "PARTS": self.mode.parts, "T": t.tile, "BK": t.inner, "num_warps": t.warps,
            "num_stages": t.stages,
        }  # fmt: skip

    def shared(self, by: Team) -> dict[str, Any]:
        """A cooperative launch guarantees that all members run at the same time and may wait for each other."""
        return {"MEMBERS": by.members, "launch_cooperative_grid": by.members > 1, **self._constants(by.tiling)}
