"""One optimizer step: forward and backward over the micro-batches, gradient clipping, update."""

import random
from collections.abc import Iterator

import torch
from lightning_fabric import Fabric
from lightning_fabric.wrappers import _FabricModule
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel

from covpool._errors import OutOfResourcesError
from covpool.data.pipeline import Batch, seed_of
from covpool.engine._graphs import Graphs
from covpool.engine.training._average import update_average
from covpool.engine.training._captured_step import StepRunner
from covpool.engine.training._memory import advice, largest_that_fits, try_step
from covpool.engine.training._meter import Meter
from covpool.engine.training._mixing import make_mix
from covpool.models import Network
from covpool.recipe import Recipe


class Stepper:
    """Runs optimizer steps.

    Args:
        fabric: Devices, precision and strategy.
        model: The network as Fabric wraps it.
        optimizer: The optimizer as Fabric wraps it.
        meter: Counts losses and hits.
        recipe: The recipe of the stage.
        ema: The copy with averaged weights, if there is one.
        graphs: Captures the step as a CUDA graph; None = never.
    """

    def __init__(
        self,
        fabric: Fabric,
        model: _FabricModule,
        optimizer: torch.optim.Optimizer,
        meter: Meter,
        recipe: Recipe,
        *,
        ema: AveragedModel | None = None,
        graphs: Graphs | None = None,
    ) -> None:
        self.fabric, self.model, self.optimizer, self.meter, self.recipe = fabric, model, optimizer, meter, recipe
        self.ema, self.network = ema, model.module
        assert isinstance(self.network, Network)
        self._mix = make_mix(recipe.augment, self.network.num_classes)
        self.runner = StepRunner(self._backward, self._update, self._reset, graphs, recipe.train)

    def step(self, batches: Iterator[Batch], number: int) -> list[int]:
        """Run one step and return the numbers of its images that could not be read.

        Args:
            batches: The micro-batches to take from.
            number: Number of the step, which seeds its random numbers.
        """
        try:
            return self._step(batches, number)
        except torch.OutOfMemoryError:
            pass
        raise OutOfResourcesError(self._explain())  # outside of `except`, the tensors of the failed step are freed

    def _step(self, batches: Iterator[Batch], number: int) -> list[int]:
        accumulate, broken = self.recipe.train.accumulate, []
        self.runner.begin()
        for i in range(accumulate):
            self._batch = next(batches)
            broken += self._batch.index[self._batch.broken].tolist()
            self._seed(number, i)
            x, y = self._batch.x, self._batch.y
            x, y = (x, y) if self._mix is None else self._mix(x, y)
            with self.fabric.no_backward_sync(self.model, enabled=i + 1 < accumulate):
                self.runner.backward(i, x, y)
        self.runner.update()
        if self.ema is not None:
            self.ema.n_averaged += 1
        return broken

    def _seed(self, number: int, i: int) -> None:
        seed = seed_of(self.recipe.seed, number, i, self.fabric.global_rank)
        torch.manual_seed(seed)
        random.seed(seed)

    def _backward(self, x: Tensor, y: Tensor) -> None:
        if self.recipe.train.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        logits = self.model(x)
        loss = self._loss(logits, y)
        self.meter.add(loss, logits, y)
        self.fabric.backward(loss / self.recipe.train.accumulate)
        self.meter.finish()

    def _update(self) -> None:
        limit = self.recipe.train.clip_norm
        if limit:
            self.fabric.clip_gradients(self.model, self.optimizer, max_norm=limit, error_if_nonfinite=False)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.ema is not None:
            update_average(self.ema, self.network)

    def _reset(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.meter.clear()

    def _loss(self, logits: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(logits.float(), y, label_smoothing=self.recipe.train.label_smoothing)

    def _explain(self) -> str:
        """Find the batch size that fits by trying, in this process only."""
        settings, device, batch = self.recipe.train, self.fabric.device, self._batch
        learning = [p for p in self.network.parameters() if p.requires_grad]
        weights = sum(p.numel() * p.element_size() for p in learning)
        reserve = 0 if self.optimizer.state else weights  # the first step allocates the momentum

        def attempt(images: int) -> None:
            self.optimizer.zero_grad(set_to_none=True)
            with self.fabric.autocast():
                loss = self._loss(self.network(batch.x[:images]), batch.y[:images])
            loss.backward()

        fitting = largest_that_fits(
            lambda images: try_step(attempt, images, reserve=reserve, device=device), len(batch.x)
        )
        return f"out of memory with {len(batch.x)} images per micro-batch on {device}: " + advice(
            settings.batch_size, processes=self.fabric.world_size, accumulate=settings.accumulate, fitting=fitting
        )
