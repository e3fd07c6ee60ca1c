"""What all stages of a training share: the network, the log, the evaluation, and the files of the run."""

from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import covpool
from covpool._errors import CovpoolError, OutOfResourcesError
from covpool._files import read_tensors
from covpool.data.pipeline import Decoding, EvalBatches, Share, data_split, decode_ahead, preprocessing
from covpool.data.sets import Splits
from covpool.engine._devices import is_sharded
from covpool.engine._graphs import CapturedForward
from covpool.engine._infer import capture_logits, compute_scores
from covpool.engine.evaluation._metrics import Part, accuracies
from covpool.engine.evaluation._tensor_files import SCORES_FILE, SavedScores, save_scores
from covpool.engine.training._adapt import adapt
from covpool.engine.training._broken import BrokenImages
from covpool.engine.training._build import Built, build_network
from covpool.engine.training._interrupt import Stopped, StopRequests
from covpool.engine.training._log import Event, Log
from covpool.engine.training._run_folder import BEST_CHECKPOINT
from covpool.engine.training._state import STATE_FILE, WHOLE, TrainingPosition, TrainingState, collect, save_state
from covpool.engine.training._trained_on import describe_data
from covpool.engine.training._writer import Writer
from covpool.io import DataSplit, EvaluationSettings, rebuild_saved
from covpool.models import Network, rebuild
from covpool.recipe import Recipe

OnEvent = Callable[[Event], None]


class Session:
    """One execution of a training, from its start or from a saved state.

    Args:
        fabric: Devices, precision and strategy; launched.
        recipe: The recipe of the training. What it leaves to the network is filled in.
        run: The folder of the run.
        splits: The training set and the test set.
        on_event: Receives the events, in the first process only.
        restored: The saved state to resume from.
    """

    def __init__(
        self,
        fabric: Fabric,
        recipe: Recipe,
        run: Path,
        splits: Splits,
        on_event: OnEvent,
        restored: TrainingState | None = None,
    ) -> None:
        self.fabric, self.run, self.splits = fabric, run, splits
        self.is_sharded = is_sharded(fabric)
        torch.manual_seed(recipe.seed)
        built = _build(recipe, splits, run, restored)
        self.network, self.has_own_pool = built.network, built.has_own_pool
        self.notes = [*_split_note(splits), *built.notes]
        self.recipe = built.resolve_inputs(recipe, quiet=restored is not None or not fabric.is_global_zero)
        self.augment = self.recipe.augment.complete()
        adapt(self.network, recipe.train, fabric)
        self.wrapped: nn.Module = self.network  # the network as the strategy wraps it
        self.ema = self._make_ema()
        on_gpu = fabric.device.type == "cuda" and not self.is_sharded
        self._copy = deepcopy(self.network) if on_gpu and fabric.is_global_zero else None  # to save from
        self.is_resumed = restored is not None
        self.position = restored.position if restored else TrainingPosition()
        self.tensors = restored.tensors if restored else {}  # until their stage is set up
        self._data_at_start = restored.data if restored else {}
        self._on_event = on_event
        self._log: Log | None = None
        self.part: Part = "test" if splits.validation is None else "validation"  # evaluated after every epoch
        self._evaluated: dict[Part, EvalBatches] = {}
        self._writer = Writer()
        self._decodings: dict[Part | Literal["train"], Decoding | None] = {}
        self._forward: CapturedForward | None = None  # of the evaluation

    def begin(self) -> None:
        """Open the log. A resumed log is cut back to the step of the restored state."""
        if self.fabric.is_global_zero:
            if "files" not in self._data_at_start:
                self._data_at_start = describe_data(self.splits, self.recipe.data.compare)
            self._log = Log(self.run, self.position.step if self.is_resumed else None)
        self.broken = {
            name: BrokenImages(images, self.position.broken.setdefault(name, []))
            for name, images in self.splits.parts().items()
        }

    def emit(self, event: Event, *, logged: bool = True) -> None:
        """Log an event and pass it on, in the first process only."""
        if self.fabric.is_global_zero:
            complete = {"event": event["event"], "step": self.position.step, **event}
            if logged and self._log is not None:
                self._log.write(complete)
            self._on_event(complete)

    def decode(self, part: Part | Literal["train"]) -> None:
        """Begin to decode a set of images for their cache, without waiting for them."""
        if part not in self._decodings:
            self._decodings[part] = decode_ahead(self.splits.parts()[part], self.augment, self.recipe.data)

    def close(self) -> None:
        """Stop decoding, and end the writing of files."""
        with ExitStack() as closing:
            closing.callback(self._writer.close)
            if self._log is not None:
                closing.callback(self._log.close)
            for decoding in self._decodings.values():
                if decoding is not None:
                    closing.callback(decoding.stop)

    def score(self, part: Part, model: nn.Module, batch_size: int) -> tuple[Tensor, Tensor]:
        """Compute the logits and targets of the validation or test set, with the averaged weights if there are any.

        Args:
            part: The set.
            model: The network as the strategy wraps it.
            batch_size: Images per batch and process, unless the recipe sets evaluate.batch_size.
        """
        network = self.ema.module if self.ema is not None else model if self.is_sharded else self.network
        self._synchronize_buffers()
        return self._score(part, network, batch_size)

    def conclude(self) -> tuple[dict[str, float], int]:
        """Return the test metrics of the run and their epoch.

        With a validation set it is the epoch that is best on it; its checkpoint is evaluated on the test set, once.
        Without one it is the last epoch.
        """
        if self.part == "test" or not self.position.best_epoch:
            return self.position.metrics, self.position.epoch
        self._writer.wait()
        batch_size = self.recipe.train.batch_size // (self.recipe.train.accumulate * self.fabric.world_size)
        scores = self._score("test", self._best_network(), batch_size)
        self.report_broken()
        metrics = accuracies(*scores)
        if metrics:
            self.save_scores(BEST_CHECKPOINT, *scores)
        return metrics, self.position.best_epoch

    def _best_network(self) -> nn.Module:
        """The network with the weights of the best checkpoint, which the first process reads. The training is over."""
        is_first, path = self.fabric.is_global_zero, self.run / BEST_CHECKPOINT
        weights = self.fabric.broadcast(dict(read_tensors(path)) if is_first else {})
        network = self.network if self.ema is None else cast(Network, self.ema.module)
        if self.is_sharded:
            assert self.network.architecture is not None
            network = rebuild(self.network.architecture)
        network.load_state_dict(weights)
        return network.to(self.fabric.device)

    def _score(self, part: Part, network: nn.Module, batch_size: int) -> tuple[Tensor, Tensor]:
        settings = self.recipe.evaluate
        size = settings.batch_size or max(1, batch_size // settings.crops)
        if part not in self._evaluated:
            self._evaluated[part] = EvalBatches(
                self.splits.parts()[part],
                self.augment,
                self.recipe.data,
                batch_size=size,
                share=Share(self.fabric.world_size, self.fabric.global_rank),
                crops=settings.crops,
                device=self.fabric.device,
                on_progress=self.report_caching,
            )
        if self._forward is None or self.is_sharded:
            self._forward = capture_logits(network)
        batches = self.broken[part].watch(self._evaluated[part])
        precision = self.recipe.train.precision
        try:
            return compute_scores(
                network,
                batches,
                flip=settings.flip,
                precision=precision,
                fabric=self.fabric,
                forward=self._forward,
            )
        except torch.OutOfMemoryError as error:
            raise OutOfResourcesError(
                f"out of memory in the evaluation: set evaluate.batch_size below {size}"
            ) from error

    def report_caching(self, what: str, done: int, count: int) -> None:
        self.emit({"event": "caching", "what": what, "done": done, "count": count}, logged=False)

    def report_preparing(self, requests: StopRequests, what: str, done: int, count: int) -> None:
        """Report progress, and stop if the user asked for it: there is nothing to save before the first step.

        Several processes do not stop here, because the others would wait for the one that does.
        """
        self.report_caching(what, done, count)
        if requests.asked and self.fabric.world_size == 1:
            raise self.stopped()

    def stopped(self) -> Stopped:
        return Stopped(f"stopped at step {self.position.step}: `covpool train --resume {self.run}` continues it")

    def report_stopping(self) -> None:
        self.emit({"event": "stopping"}, logged=False)

    def report_broken(self) -> None:
        """Name the images that could not be read and have not been named yet."""
        for name, found in self.broken.items():
            for path in found.collect(self.fabric) if self.recipe.data.broken == "skip" else []:
                self.emit({"event": "broken", "part": name, "path": path})

    def save_checkpoints(self, notes: dict[str, dict[str, str]], metrics: dict[str, float]) -> None:
        """Save the evaluated weights as checkpoints in the folder of the run. Every process must call this method.

        Args:
            notes: The names of the files, each with further notes on the training for its metadata.
            metrics: Results of the evaluation.
        """
        network = self._weights_to_save()
        if not self.fabric.is_global_zero:
            return
        recipe, position = self.recipe, self.position
        how = EvaluationSettings(
            crops=recipe.evaluate.crops, flip=recipe.evaluate.flip, precision=recipe.train.precision
        )
        about = {"recipe": recipe.model_dump(mode="json"), "epoch": position.epoch, "step": position.step}
        for name, said in notes.items():
            save = partial(
                covpool.save,
                network,
                self.run / name,
                class_names=self.splits.train.classes,
                preprocessing=preprocessing(self.augment),
                evaluation=how,
                data=self._data,
                training={**about, "metrics": metrics, "notes": said},
            )
            self._write(save)

    def _weights_to_save(self) -> Network:
        """The evaluated network for the first process to save. On a GPU, further steps do not change its weights."""
        network = self.network if self.ema is None else cast(Network, self.ema.module)
        if self.is_sharded:
            whole = get_model_state_dict(self.wrapped, options=WHOLE)
            if self.fabric.is_global_zero:
                assert self.network.architecture is not None
                network = rebuild(self.network.architecture)
                network.load_state_dict(whole)
        elif self._copy is not None:
            self._writer.wait()  # it may still be reading the copy
            self._copy.load_state_dict(network.state_dict())
            network = self._copy
        return network

    def _write(self, write: Callable[[], None]) -> None:
        """Write a file. On a GPU a thread writes it while the training goes on, because the tensors were copied."""
        if self.fabric.device.type == "cuda":
            self._writer.submit(write)
        else:
            write()

    def save_scores(self, checkpoint: str, logits: Tensor, targets: Tensor) -> None:
        """Save the test scores of a checkpoint, for the report."""
        if self.fabric.is_global_zero:
            path, scores = self.run / SCORES_FILE, SavedScores(logits, targets)
            fingerprint = self._data.fingerprints["test"]
            self._write(partial(save_scores, path, scores, self.run / checkpoint, self.recipe, fingerprint))

    def save_state(self, optimizer: torch.optim.Optimizer) -> None:
        """Save everything needed to resume. Every process must call this method."""
        scaler = self.fabric.strategy.precision.state_dict()
        tensors = collect(self.wrapped, optimizer, ema=self.ema, scaler=scaler)
        if self.fabric.is_global_zero:
            architecture = self.network.architecture
            stored = None if architecture is None else asdict(architecture)
            recipe = self.recipe.model_dump(mode="json")
            state = TrainingState(deepcopy(self.position), tensors, stored, self._data_at_start, recipe)
            self._write(partial(save_state, self.run / STATE_FILE, state))

    @cached_property
    def _data(self) -> DataSplit:
        """The sets of images, with fingerprints of their file lists."""
        return data_split(self.recipe.data, self.splits)

    def _make_ema(self) -> AveragedModel | None:
        """Make the copy with averaged weights. Its counter stays on the CPU, so that no step waits for the device."""
        if not self.recipe.train.ema:
            return None
        if self.is_sharded:
            raise CovpoolError("`train.ema` does not work with devices.strategy=fsdp: use ddp")
        ema = AveragedModel(self.network, multi_avg_fn=get_ema_multi_avg_fn(self.recipe.train.ema))
        ema.module.to(self.fabric.device)
        return ema

    def _synchronize_buffers(self) -> None:
        """Give every process the batch-norm statistics of the first one, because those are the ones saved."""
        if self.fabric.world_size == 1 or self.is_sharded:
            return
        buffers = {name: buffer.cpu() for name, buffer in self.network.named_buffers()}
        for name, buffer in self.fabric.broadcast(buffers).items():
            self.network.get_buffer(name).copy_(buffer)
            if self.ema is not None:
                cast(Network, self.ema.module).get_buffer(name).copy_(buffer)


def _split_note(splits: Splits) -> list[str]:
    """How the images of a flat folder were split, for the user."""
    if splits.random is None:
        return []
    counts = ", ".join(f"{len(images)} {name}" for name, images in splits.parts().items())
    return [f"images split at random: {counts} (data.split_seed={splits.random.seed})"]


def _build(recipe: Recipe, splits: Splits, run: Path, restored: TrainingState | None) -> Built:
    """Build the network. A resumed run does not need the weights it started from."""
    if restored is None or restored.network is None:
        return build_network(recipe, splits.train.classes)
    network = rebuild_saved(restored.network, restored.tensors.get("model", {}), run / STATE_FILE)
    return Built(network, ["all weights from the saved state"])
