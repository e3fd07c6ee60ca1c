"""One stage of a training: epochs of steps, each followed by an evaluation and a saved state."""

import math
import time
from collections.abc import Iterator
from functools import partial
from typing import cast

import torch
from torch import nn

from covpool._errors import CovpoolError, DivergedError
from covpool.data.pipeline import Batch, Share, TrainBatches
from covpool.engine._devices import summed
from covpool.engine._graphs import Graphs
from covpool.engine.evaluation._metrics import accuracies, named_by_part
from covpool.engine.training._build import count_learning, freeze, set_training
from covpool.engine.training._captured_step import report_not_captured, why_not_captured
from covpool.engine.training._interrupt import StopRequests
from covpool.engine.training._meter import NAMES, Meter, means
from covpool.engine.training._optimizer import BASE_LR, make_optimizer, prepare_capture, set_lr
from covpool.engine.training._run_folder import BEST_CHECKPOINT, LAST_CHECKPOINT
from covpool.engine.training._schedule import lr_factor
from covpool.engine.training._session import Session
from covpool.engine.training._state import restore
from covpool.engine.training._step import Stepper
from covpool.engine.training._vector_dropout import drop_vectors
from covpool.recipe import Recipe, ResolvedStage, total_epochs, total_steps

EPOCH_NAMES = {"loss": "train_loss", "accuracy": "train_top1"}  # names in an epoch's event for names in a step's


class StageTraining:
    """One stage: the network with its frozen parts, a new optimizer, and the epochs.

    Args:
        session: The session.
        stage: The stage.
        requests: Tells whether the user asked the training to stop.
    """

    def __init__(self, session: Session, stage: ResolvedStage, requests: StopRequests) -> None:
        self.session, self.stage, self.requests = session, stage, requests
        self.recipe, self.fabric, self.position = stage.recipe, session.fabric, session.position
        self.settings, self.images = stage.recipe.train, len(session.splits.train)
        self.micro_batch = _micro_batch(self.settings.batch_size, self.settings.accumulate, self.fabric.world_size)
        self.batches = TrainBatches(
            session.splits.train,
            session.augment,
            self.recipe.data,
            batch_size=self.micro_batch,
            share=Share(self.fabric.world_size, self.fabric.global_rank),
            seed=self.recipe.seed,
            device=self.fabric.device,
            on_progress=partial(session.report_preparing, requests),
        )
        self.steps_per_epoch = self.batches.steps_per_epoch // self.settings.accumulate
        if not self.steps_per_epoch:
            raise CovpoolError(
                f"`train.batch_size` must be at most the {self.images} training images; got "
                f"{self.settings.batch_size}: use a smaller one"
            )
        session.decode(session.part)
        self._set_up()

    def _set_up(self) -> None:
        network = self.session.network
        freeze(network, self.settings.freeze)
        for module in network.modules():
            if isinstance(module, nn.Hardtanh):  # also ReLU6; in place, autograd would copy its input first
                module.inplace = False
        probability = self.settings.vector_dropout
        self._dropout = drop_vectors(network, probability) if probability else None
        optimizer = make_optimizer(network, self.recipe.optimizer)
        compiled = cast(nn.Module, torch.compile(network)) if self.settings.compile else network
        self.model, self.optimizer = self.fabric.setup(compiled, optimizer)
        self.session.wrapped = self.model._forward_module if self.session.is_sharded else network
        self.meter = Meter(network.pool, self.fabric.device)
        if self.session.tensors:
            wrapped, is_sharded = self.session.wrapped, self.session.is_sharded
            begins = self.position.epoch == self.stage.start and not self.position.step_in_epoch
            saved = None if begins else optimizer  # at the end of a stage, the saved optimizer is that of the stage
            restore(self.session.tensors, wrapped, saved, ema=self.session.ema, is_sharded=is_sharded)
            self.fabric.strategy.precision.load_state_dict(self.session.tensors["scaler"])
            self.session.tensors = {}
        graphs, ema = self._graphs(optimizer), self.session.ema
        self.stepper = Stepper(self.fabric, self.model, self.optimizer, self.meter, self.recipe, ema=ema, graphs=graphs)

    def _graphs(self, optimizer: torch.optim.Optimizer) -> Graphs | None:
        """Prepare the capture of the step, if the recipe asks for it and the step can be captured."""
        if self.settings.graph is False:
            return None
        reason = why_not_captured(self.fabric, self.settings, optimizer)
        if reason:
            report_not_captured(self.settings, reason, is_usual=self.fabric.device.type != "cuda")
            return None
        prepare_capture(optimizer)
        return Graphs(self.fabric.device)

    def run(self) -> None:
        """Run the epochs of the stage that are left."""
        notes = [*self.session.notes, *_warm_up_note(self.recipe)]
        about = {"event": "stage", "notes": notes, "learning": count_learning(self.session.network)}
        epochs, steps = total_epochs(self.session.recipe), total_steps(self.session.recipe, self.images)
        self.session.emit({**about, "epochs": epochs, "total_steps": steps}, logged=False)
        try:
            while self.position.epoch < self.stage.end:
                self._run_epoch()
        finally:
            self.stepper.runner.close()
            self.meter.close()
            if self._dropout is not None:
                self._dropout.remove()

    def _run_epoch(self) -> None:
        position, settings = self.position, self.settings
        self._begin_epoch()
        batches = self.batches.epoch(position.epoch, position.step_in_epoch * settings.accumulate)
        while position.step_in_epoch < self.steps_per_epoch:
            self._step(batches)
            is_last = position.step_in_epoch == self.steps_per_epoch
            if position.step % settings.log_every == 0:
                self._log_step()
            if is_last:
                break
            if settings.save_every and position.step % settings.save_every == 0:
                self._save()
            self._stop_if_asked()
        self._end_epoch()
        self._stop_if_asked()

    def _begin_epoch(self) -> None:
        position = self.position
        set_training(self.session.network, self.settings.freeze, freeze_norms=self.settings.freeze_norms)
        self.meter.sums.zero_()
        if position.step_in_epoch and self.fabric.is_global_zero:  # the saved sums are over all processes
            self.meter.sums += torch.tensor(position.sums, dtype=self.meter.sums.dtype, device=self.fabric.device)
        position.logged = position.logged if position.step_in_epoch else [0.0] * len(NAMES)
        if not position.step_in_epoch:
            position.times = position.logged_times = [0.0, 0.0]
        self._times_before, self._begun = position.times, time.perf_counter()
        self._counted = self._begun

    def _step(self, batches: Iterator[Batch]) -> None:
        position = self.position
        self._factor = self._lr_factor()
        set_lr(self.optimizer, self._factor)
        self.session.broken["train"].note(self.stepper.step(batches, position.step))
        position.step += 1
        position.step_in_epoch += 1
        self.session.emit({"event": "tick", "epoch": position.epoch + 1}, logged=False)

    def _lr_factor(self) -> float:
        in_stage = (self.position.epoch - self.stage.start) * self.steps_per_epoch + self.position.step_in_epoch
        return lr_factor(
            self.recipe.schedule, in_stage, steps_per_epoch=self.steps_per_epoch, epochs=self.settings.epochs
        )

    def _log_step(self) -> None:
        position, sums = self.position, self._read_sums()
        times = self._times()
        seconds, waited = (now - before for now, before in zip(times, position.logged_times, strict=True))
        images = sums[NAMES.index("images")] - position.logged[NAMES.index("images")]
        speed = {"images_per_s": images / seconds, "compute_images_per_s": images / max(seconds - waited, 1e-9)}
        lr = self.optimizer.param_groups[0][BASE_LR] * self._factor
        found = means(sums, position.logged)
        self.session.emit({"event": "step", "epoch": position.epoch + 1, **found, "lr": lr, **speed})
        position.logged, position.logged_times = sums, times

    def _times(self) -> list[float]:
        """Seconds of the epoch so far, and seconds of them spent waiting for images, over all sessions."""
        seconds, waited = self._times_before
        return [seconds + time.perf_counter() - self._begun, waited + self.batches.waited]

    def _read_sums(self) -> list[float]:
        """Read the sums of the epoch over all processes: the only place where the host waits for the device."""
        found: list[float] = summed(self.fabric, self.meter.sums).tolist()
        if not math.isfinite(found[0]):
            raise DivergedError(
                f"the loss is not finite at step {self.position.step}: lower optimizer.lr, or set train.clip_norm; "
                "covpool.diagnostics finds the operation that gave the first such value"
            )
        return found

    def _end_epoch(self) -> None:
        position, session = self.position, self.session
        trained = {EPOCH_NAMES.get(name, name): value for name, value in means(self._read_sums()).items()}
        now = time.perf_counter()
        times = dict(zip(("seconds", "waited"), self._times(), strict=True))
        position.epoch, position.step_in_epoch = position.epoch + 1, 0
        self._count_time()
        scores, metrics = None, {}
        if position.epoch == total_epochs(session.recipe) or position.epoch % self.recipe.evaluate.every == 0:
            scores = session.score(session.part, self.model, self.micro_batch)
            metrics = position.metrics = named_by_part(accuracies(*scores), session.part)
        times["evaluation_seconds"] = time.perf_counter() - now
        session.report_broken()
        checkpoints: dict[str, dict[str, str]] = {LAST_CHECKPOINT: {}}
        top1 = metrics.get("top1" if session.part == "test" else "validation_top1", -1.0)
        if top1 > position.best:
            position.best, position.best_epoch = top1, position.epoch
            checkpoints[BEST_CHECKPOINT] = {"chosen_on": session.part}
        session.save_checkpoints(checkpoints, metrics)
        if scores is not None and session.part == "test" and metrics:
            session.save_scores(LAST_CHECKPOINT, *scores)
        tested = {"test_loss" if name == "loss" else name: value for name, value in metrics.items()}
        session.emit({"event": "epoch", "epoch": position.epoch, **trained, **tested, **times})
        session.save_state(self.optimizer.optimizer)

    def _save(self) -> None:
        self.position.sums, self.position.times = self._read_sums(), self._times()
        self._count_time()
        self.session.save_state(self.optimizer.optimizer)

    def _count_time(self) -> None:
        now = time.perf_counter()
        self.position.seconds += now - self._counted
        self._counted = now

    def _stop_if_asked(self) -> None:
        """Save and stop if the user asked for it. Several processes decide together, at the steps that are logged."""
        asked = self.requests.asked
        if self.fabric.world_size > 1:
            if self.position.step % self.settings.log_every:
                return
            asked = bool(summed(self.fabric, torch.tensor(float(asked), device=self.fabric.device)))
        if asked:
            if self.position.step_in_epoch:
                self._save()
            raise self.session.stopped()


def _warm_up_note(recipe: Recipe) -> list[str]:
    """Say that a training ends before its learning rate is reached."""
    warm_up, epochs = recipe.schedule.warmup_epochs, recipe.train.epochs
    if warm_up < epochs:
        return []
    reached = f"the learning rate never reaches optimizer.lr = {recipe.optimizer.lr:g}"
    return [f"{reached}: schedule.warmup_epochs = {warm_up:g} of {epochs}; set it lower, or train.epochs higher"]


def _micro_batch(batch_size: int, accumulate: int, processes: int) -> int:
    """Images per micro-batch in one process."""
    if batch_size % (accumulate * processes):
        raise CovpoolError(
            f"`train.batch_size` must be a multiple of {accumulate} accumulated micro-batches times {processes} "
            f"processes; got {batch_size}"
        )
    return batch_size // (accumulate * processes)
