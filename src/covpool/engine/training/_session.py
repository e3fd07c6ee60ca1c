"""What all stages of a training share: the network, the log, evaluation, and the files of the run."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import cast

import torch
from lightning.fabric import Fabric
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from covpool._errors import CovpoolError, OutOfResourcesError
from covpool.data.pipeline import EvalBatches, Share
from covpool.data.sets import Splits
from covpool.engine._devices import is_sharded
from covpool.engine._infer import scores
from covpool.engine.evaluation._metrics import accuracies
from covpool.engine.training import _run_folder as folder
from covpool.engine.training import _state as state
from covpool.engine.training._broken import BrokenImages
from covpool.engine.training._build import Built, build_network
from covpool.engine.training._log import Event, Log
from covpool.engine.training._trained_on import describe_data
from covpool.models import Network, rebuild
from covpool.recipe import Recipe

OnEvent = Callable[[Event], None]


class Session:
    """One run of the program on a training, from its start or from a saved state.

    Args:
        fabric: devices, precision, strategy; launched.
        recipe: the training.
        run: its folder.
        splits: the images.
        on_event: is told what happens, in the first process only.
        restored: the saved state to go on from.
    """

    def __init__(
        self,
        fabric: Fabric,
        recipe: Recipe,
        run: Path,
        splits: Splits,
        on_event: OnEvent,
        restored: state.State | None = None,
    ) -> None:
        self.fabric, self.recipe, self.run, self.splits = fabric, recipe, run, splits
        self.is_sharded = is_sharded(fabric)
        torch.manual_seed(recipe.seed)
        built = _build(recipe, splits, restored)
        self.network, self.notes = built.network, built.notes
        if recipe.train.channels_last:
            self.network.to(memory_format=torch.channels_last)
        if recipe.train.sync_norms and fabric.world_size > 1:
            nn.SyncBatchNorm.convert_sync_batchnorm(self.network)
        self.held: nn.Module = self.network  # as the strategy holds it
        self.ema = self._make_ema()
        self.is_resumed = restored is not None
        self.progress = restored.progress if restored else state.Progress()
        self.tensors = restored.tensors if restored else {}  # until the stage they belong to is set up
        self._on_event = on_event
        self._log: Log | None = None
        self._test: EvalBatches | None = None

    def begin(self) -> None:
        """Open the log, cut back to the step of a restored state."""
        if self.fabric.is_global_zero:
            self._log = Log(self.run, self.progress.step if self.is_resumed else None)
        self.broken = {
            name: BrokenImages(images, self.progress.broken.setdefault(name, []))
            for name, images in (("train", self.splits.train), ("test", self.splits.test))
        }

    def emit(self, event: Event, *, logged: bool = True) -> None:
        """Tell what happened; only the first process speaks."""
        if self.fabric.is_global_zero:
            told = {"event": event["event"], "step": self.progress.step, **event}
            if logged and self._log is not None:
                self._log.write(told)
            self._on_event(told)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def evaluate(self, model: nn.Module, batch_size: int) -> dict[str, float]:
        """Top-1, 3, 5 and the loss on the test images, of the averaged weights where there are any.

        Args:
            model: the network as the strategy holds it.
            batch_size: images at once in one process, where the recipe does not say.
        """
        settings = self.recipe.evaluate
        at_once = settings.batch_size or max(1, batch_size // settings.crops)
        if self._test is None:
            self._test = EvalBatches(
                self.splits.test,
                self.recipe.augment,
                self.recipe.data,
                batch_size=at_once,
                share=Share(self.fabric.world_size, self.fabric.global_rank),
                crops=settings.crops,
                device=self.fabric.device,
                on_progress=self.report_caching,
            )
        judged = self.ema.module if self.ema is not None else model if self.is_sharded else self.network
        self._agree_on_buffers()
        batches = self.broken["test"].watch(self._test)
        try:
            return accuracies(*scores(judged, batches, flip=settings.flip, fabric=self.fabric))
        except torch.OutOfMemoryError as error:
            raise OutOfResourcesError(
                f"out of memory in the evaluation: set evaluate.batch_size below {at_once}"
            ) from error

    def report_caching(self, what: str, done: int, count: int) -> None:
        self.emit({"event": "caching", "done": done, "count": count}, logged=False)

    def report_stopping(self) -> None:
        self.emit({"event": "stopping"}, logged=False)

    def report_broken(self) -> None:
        """Name the pictures that turned out to be broken since the last time."""
        for name, found in self.broken.items():
            for path in found.collect(self.fabric) if self.recipe.data.broken == "skip" else []:
                self.emit({"event": "broken", "part": name, "path": path})

    def save_checkpoint(self, name: str, metrics: dict[str, float]) -> None:
        """The weights that were evaluated, as a checkpoint in the folder of the run; all processes must take part."""
        network = self.network if self.ema is None else cast(Network, self.ema.module)
        if self.is_sharded:
            whole = get_model_state_dict(self.held, options=state.WHOLE)
            if self.fabric.is_global_zero:
                assert self.network.architecture is not None
                network = rebuild(self.network.architecture)
                network.load_state_dict(whole)
        if self.fabric.is_global_zero:
            about = {"epoch": self.progress.epoch, "step": self.progress.step, "metrics": metrics}
            folder.save_checkpoint(self.run / name, network, self.recipe, self.splits.train.classes, about)

    def save_state(self, optimizer: torch.optim.Optimizer) -> None:
        """Everything that is needed to go on from here; all processes must take part."""
        scaler = self.fabric.strategy.precision.state_dict()
        tensors = state.collect(self.held, optimizer, ema=self.ema, scaler=scaler)
        if self.fabric.is_global_zero:
            architecture = self.network.architecture
            stored = None if architecture is None else asdict(architecture)
            whole = state.State(self.progress, tensors, stored, describe_data(self.splits))
            state.save_state(self.run / state.STATE_FILE, whole)

    def _make_ema(self) -> AveragedModel | None:
        """A copy whose counter stays on the CPU, so that no step waits for it."""
        if not self.recipe.train.ema:
            return None
        if self.is_sharded:
            raise CovpoolError("`train.ema` does not go with the strategy fsdp, which scatters the weights: use ddp")
        ema = AveragedModel(self.network, multi_avg_fn=get_ema_multi_avg_fn(self.recipe.train.ema))
        ema.module.to(self.fabric.device)
        return ema

    def _agree_on_buffers(self) -> None:
        """Every process judges with the first one's statistics of batch norms, which are those that are saved."""
        if self.fabric.world_size == 1 or self.is_sharded:
            return
        buffers = {name: buffer.cpu() for name, buffer in self.network.named_buffers()}
        for name, buffer in self.fabric.broadcast(buffers).items():
            self.network.get_buffer(name).copy_(buffer)
            if self.ema is not None:
                cast(Network, self.ema.module).get_buffer(name).copy_(buffer)


def _build(recipe: Recipe, splits: Splits, restored: state.State | None) -> Built:
    """The network; the weights it began with are not looked for again where a state has those it has come to."""
    if restored is None or restored.network is None:
        return build_network(recipe, splits.train.classes)
    return Built(rebuild(restored.network), ["all weights from the saved state"])
