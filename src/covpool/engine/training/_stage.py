"""One stage of a training: epochs of steps, each followed by an evaluation and a saved state."""

import math
import time
from collections.abc import Iterator
from typing import cast

import torch
from torch import nn

from covpool._errors import CovpoolError
from covpool.data.pipeline import Batch, Share, TrainBatches
from covpool.engine._devices import summed
from covpool.engine.training import _run_folder as folder
from covpool.engine.training import _state as state
from covpool.engine.training._build import count_learning, freeze, set_training
from covpool.engine.training._interrupt import Stopped, StopRequests
from covpool.engine.training._meter import NAMES, Meter, means
from covpool.engine.training._optimizer import make_optimizer, set_lr
from covpool.engine.training._schedule import lr_factor
from covpool.engine.training._session import Session
from covpool.engine.training._step import Stepper
from covpool.recipe import ResolvedStage, total_epochs, total_steps

LEARNT = {"loss": "train_loss", "accuracy": "train_top1"}  # an epoch's names for what a step's log calls loss, accuracy


class StageTraining:
    """One stage: the network with its frozen parts, a fresh optimizer, and the epochs."""

    def __init__(self, session: Session, part: ResolvedStage, requests: StopRequests) -> None:
        self.session, self.part, self.requests = session, part, requests
        self.recipe, self.fabric, self.progress = part.recipe, session.fabric, session.progress
        self.settings, self.images = part.recipe.train, len(session.splits.train)
        self.micro_batch = _micro_batch(self.settings.batch_size, self.settings.accumulate, self.fabric.world_size)
        self.batches = TrainBatches(
            session.splits.train,
            self.recipe.augment,
            self.recipe.data,
            batch_size=self.micro_batch,
            share=Share(self.fabric.world_size, self.fabric.global_rank),
            seed=self.recipe.seed,
            device=self.fabric.device,
            on_progress=self._report_caching,
        )
        self.steps_per_epoch = self.batches.steps_per_epoch // self.settings.accumulate
        if not self.steps_per_epoch:
            raise CovpoolError(
                f"`train.batch_size` = {self.settings.batch_size} is more than the {self.images} training images: "
                "use a smaller one"
            )
        self._set_up()

    def _set_up(self) -> None:
        network = self.session.network
        freeze(network, self.settings.freeze)
        optimizer = make_optimizer(network, self.recipe.optimizer)
        compiled = cast(nn.Module, torch.compile(network)) if self.settings.compile else network
        self.model, self.optimizer = self.fabric.setup(compiled, optimizer)
        self.session.held = self.model._forward_module if self.session.is_sharded else network
        self.meter = Meter(network.pool, self.fabric.device)
        self.stepper = Stepper(self.fabric, self.model, self.optimizer, self.meter, self.recipe)
        if self.session.tensors:
            held, is_sharded = self.session.held, self.session.is_sharded
            state.restore(self.session.tensors, held, optimizer, ema=self.session.ema, is_sharded=is_sharded)
            self.fabric.strategy.precision.load_state_dict(self.session.tensors["scaler"])
            self.session.tensors = {}

    def run(self) -> None:
        """The epochs of the stage that are not done yet."""
        told = {"event": "stage", "notes": self.session.notes, "learning": count_learning(self.session.network)}
        epochs, steps = total_epochs(self.session.recipe), total_steps(self.session.recipe, self.images)
        self.session.emit({**told, "epochs": epochs, "total_steps": steps}, logged=False)
        try:
            while self.progress.epoch < self.part.end:
                self._run_epoch()
        finally:
            self.meter.close()

    def _run_epoch(self) -> None:
        progress, settings = self.progress, self.settings
        self._begin_epoch()
        batches = self.batches.epoch(progress.epoch, progress.step_in_epoch * settings.accumulate)
        while progress.step_in_epoch < self.steps_per_epoch:
            self._step(batches)
            is_last = progress.step_in_epoch == self.steps_per_epoch
            if progress.step % settings.log_every == 0:
                self._log_step()
            if is_last:
                break
            if settings.save_every and progress.step % settings.save_every == 0:
                self._save()
            self._stop_if_asked()
        self._end_epoch()
        self._stop_if_asked()

    def _begin_epoch(self) -> None:
        progress = self.progress
        set_training(self.session.network, self.settings.freeze, freeze_norms=self.settings.freeze_norms)
        self.meter.sums.zero_()
        if progress.step_in_epoch and self.fabric.is_global_zero:  # the saved sums are those of all processes together
            self.meter.sums += torch.tensor(progress.sums, dtype=self.meter.sums.dtype, device=self.fabric.device)
        progress.logged = progress.logged if progress.step_in_epoch else [0.0] * len(NAMES)
        self._clock = self._epoch_clock = self._counted = time.perf_counter()
        self._waited = 0.0

    def _step(self, batches: Iterator[Batch]) -> None:
        progress = self.progress
        set_lr(self.optimizer, self._lr_factor())
        self.session.broken["train"].note(self.stepper.step(batches, progress.step))
        if self.session.ema is not None:
            self.session.ema.update_parameters(self.session.network)
        progress.step += 1
        progress.step_in_epoch += 1
        self.session.emit({"event": "tick", "epoch": progress.epoch + 1}, logged=False)

    def _lr_factor(self) -> float:
        in_stage = (self.progress.epoch - self.part.start) * self.steps_per_epoch + self.progress.step_in_epoch
        return lr_factor(
            self.recipe.schedule, in_stage, steps_per_epoch=self.steps_per_epoch, epochs=self.settings.epochs
        )

    def _log_step(self) -> None:
        progress, sums = self.progress, self._read_sums()
        now = time.perf_counter()
        seconds, waited = now - self._clock, self.batches.waited - self._waited
        images = sums[NAMES.index("images")] - progress.logged[NAMES.index("images")]
        speed = {"images_per_s": images / seconds, "compute_images_per_s": images / max(seconds - waited, 1e-9)}
        lr = self.optimizer.param_groups[0]["lr"]
        found = means(sums, progress.logged)
        self.session.emit({"event": "step", "epoch": progress.epoch + 1, **found, "lr": lr, **speed})
        progress.logged, self._clock, self._waited = sums, now, self.batches.waited

    def _read_sums(self) -> list[float]:
        """The sums of the epoch over all processes: the one place where the host waits for the device."""
        found: list[float] = summed(self.fabric, self.meter.sums).tolist()
        if not math.isfinite(found[0]):
            raise CovpoolError(
                f"the loss is not finite any more at step {self.progress.step}: lower optimizer.lr, or set "
                "train.clip_norm; covpool.diagnostics tells where the first such value arises"
            )
        return found

    def _end_epoch(self) -> None:
        progress, session = self.progress, self.session
        learnt = {LEARNT.get(name, name): value for name, value in means(self._read_sums()).items()}
        trained = time.perf_counter()
        times = {"seconds": trained - self._epoch_clock, "waited": self.batches.waited}
        progress.epoch, progress.step_in_epoch = progress.epoch + 1, 0
        self._count_time()
        metrics = {}
        if progress.epoch == total_epochs(session.recipe) or progress.epoch % self.recipe.evaluate.every == 0:
            metrics = progress.metrics = session.evaluate(self.model, self.micro_batch)
        times["evaluation_seconds"] = time.perf_counter() - trained
        session.report_broken()
        session.save_checkpoint(folder.LAST_CHECKPOINT, metrics)
        if metrics.get("top1", -1.0) > progress.best:
            progress.best, progress.best_epoch = metrics["top1"], progress.epoch
            session.save_checkpoint(folder.BEST_CHECKPOINT, metrics)
        judged = {"test_loss" if name == "loss" else name: value for name, value in metrics.items()}
        session.emit({"event": "epoch", "epoch": progress.epoch, **learnt, **judged, **times})
        session.save_state(self.optimizer.optimizer)

    def _save(self) -> None:
        self.progress.sums = self._read_sums()
        self._count_time()
        self.session.save_state(self.optimizer.optimizer)

    def _count_time(self) -> None:
        now = time.perf_counter()
        self.progress.seconds += now - self._counted
        self._counted = now

    def _stop_if_asked(self) -> None:
        """Save and leave. Several processes must agree on it, which they do where they wait for each other anyway."""
        asked = self.requests.asked
        if self.fabric.world_size > 1:
            if self.progress.step % self.settings.log_every:
                return
            asked = bool(summed(self.fabric, torch.tensor(float(asked), device=self.fabric.device)))
        if asked:
            if self.progress.step_in_epoch:
                self._save()
            raise self._stopped()

    def _report_caching(self, what: str, done: int, count: int) -> None:
        """Before the first step there is nothing to save, so one process stops here; several would wait for it."""
        self.session.report_caching(what, done, count)
        if self.requests.asked and self.fabric.world_size == 1:
            raise self._stopped()

    def _stopped(self) -> Stopped:
        return Stopped(f"stopped at step {self.progress.step}: `covpool train --resume {self.session.run}` goes on")


def _micro_batch(batch_size: int, accumulate: int, processes: int) -> int:
    """Images at once in one process."""
    if batch_size % (accumulate * processes):
        raise CovpoolError(
            f"`train.batch_size` = {batch_size} must be a multiple of {accumulate} accumulated micro-batches times "
            f"{processes} processes"
        )
    return batch_size // (accumulate * processes)
