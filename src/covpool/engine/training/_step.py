"""One optimizer step: forward and backward over the micro-batches, gradient clipping, update."""

import random
from collections.abc import Iterator

import torch
from lightning.fabric import Fabric
from lightning.fabric.wrappers import _FabricModule
from torch import Tensor
from torch.nn.functional import cross_entropy

from covpool._errors import OutOfResourcesError
from covpool.data.pipeline import Batch, seed_of
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
    """

    def __init__(
        self,
        fabric: Fabric,
        model: _FabricModule,
        optimizer: torch.optim.Optimizer,
        meter: Meter,
        recipe: Recipe,
    ) -> None:
        self.fabric, self.model, self.optimizer, self.meter, self.recipe = fabric, model, optimizer, meter, recipe
        self.network = model.module
        assert isinstance(self.network, Network)
        self._mix = make_mix(recipe.augment, self.network.num_classes)

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
        settings, broken = self.recipe.train, []
        for i in range(settings.accumulate):
            self._batch = next(batches)
            broken += self._batch.index[self._batch.broken].tolist()
            self._seed(number, i)
            with self.fabric.no_backward_sync(self.model, enabled=i + 1 < settings.accumulate):
                self._backward(self._batch)
        if settings.clip_norm:
            self.fabric.clip_gradients(
                self.model, self.optimizer, max_norm=settings.clip_norm, error_if_nonfinite=False
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return broken

    def _seed(self, number: int, i: int) -> None:
        seed = seed_of(self.recipe.seed, number, i, self.fabric.global_rank)
        torch.manual_seed(seed)
        random.seed(seed)

    def _backward(self, batch: Batch) -> None:
        x, y = self._inputs(batch.x, batch.y)
        logits = self.model(x)
        loss = self._loss(logits, y)
        self.meter.add(loss, logits, y)
        self.fabric.backward(loss / self.recipe.train.accumulate)
        self.meter.finish()

    def _inputs(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if self.recipe.train.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        return (x, y) if self._mix is None else self._mix(x, y)

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
