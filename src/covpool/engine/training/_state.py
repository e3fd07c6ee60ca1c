"""The state of a training in one file, from which it resumes as if it had never stopped.

The random numbers of a step, the order of the images and the learning rate are functions of the seed and the step, so
the state does not hold them.
"""

import copy
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeFloat, NonNegativeInt, TypeAdapter
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from covpool._errors import CovpoolError
from covpool.engine.training._meter import NAMES
from covpool.io import replacing
from covpool.models import misfits

STATE_FILE = "state.pt"
FORMAT = 1
DAMAGED_OPTIMIZER = "the saved optimizer does not fit the recipe, so it is damaged: start a new run"
TwoTimes = Annotated[list[float], Field(min_length=2, max_length=2)]
# Whole tensors on the CPU for every strategy, so that a run saved by eight processes can resume in one.
WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


@dataclass
class TrainingPosition:
    """The position in a training.

    Attributes:
        epoch: Epochs completed, over all stages.
        step: Optimizer steps completed, over all stages.
        step_in_epoch: Optimizer steps completed in the current epoch.
        best: Top-1 accuracy of the best evaluation, on the validation set if there is one, else on the test set.
        best_epoch: Epoch of the best evaluation.
        seconds: Training time of all sessions together.
        sums: Sums over the current epoch, see `Meter`.
        logged: The same sums at the last step in the log.
        times: Seconds of the current epoch, and seconds of them spent waiting for images.
        logged_times: The same times at the last step in the log.
        broken: Numbers of the images that could not be read, for "train", "validation" and "test".
        metrics: Result of the last evaluation.
    """

    epoch: NonNegativeInt = 0
    step: NonNegativeInt = 0
    step_in_epoch: NonNegativeInt = 0
    best: FiniteFloat = -1.0
    best_epoch: NonNegativeInt = 0
    seconds: NonNegativeFloat = 0.0
    sums: list[float] = field(default_factory=list)
    logged: list[float] = field(default_factory=list)
    times: TwoTimes = field(default_factory=lambda: [0.0, 0.0])
    logged_times: TwoTimes = field(default_factory=lambda: [0.0, 0.0])
    broken: dict[str, list[int]] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


class _Checked(BaseModel):
    """The types of what a file holds. Values are checked where they are used."""

    model_config = ConfigDict(arbitrary_types_allowed=True, strict=True, extra="forbid", protected_namespaces=())


class _Group(_Checked, extra="allow"):
    params: list[str]


class _Optimizer(_Checked):
    state: dict[str, dict[str, Tensor | float | str | None]] = {}
    param_groups: list[_Group] = []


class _Contents(_Checked):
    """The parts beside the format and the position. The first states held fewer."""

    network: dict[str, Any] | None = None
    data: dict[str, Any] = {}
    recipe: dict[str, Any] | None = None
    model: dict[str, Tensor] = {}
    optimizer: _Optimizer = _Optimizer()
    ema: dict[str, Tensor] = {}
    scaler: dict[str, float] = {}


@dataclass
class TrainingState:
    """Everything a training resumes from.

    Attributes:
        position: The position in the training.
        tensors: Weights, optimizer state and scaler, from `collect`.
        network: The architecture, from which `rebuild` makes the network; None if the file does not have it.
        data: The data of the training, from `describe_data`; empty if the file does not have it.
        recipe: The recipe of the training, as values that JSON can hold; None if the file does not have it.
    """

    position: TrainingPosition
    tensors: dict[str, Any]
    network: dict[str, Any] | None = None
    data: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] | None = None


def save_state(path: Path, state: TrainingState) -> None:
    """Write a state. After a crash, the file is either the old one or the new one."""
    about = {name: getattr(state, name) for name in ("network", "data", "recipe")} | {"progress": vars(state.position)}
    with replacing(path) as partial:
        torch.save({"format": FORMAT, **about, **state.tensors}, partial)


def load_state(path: Path) -> TrainingState:
    """Read a state that `save_state` wrote, and check its checksums. No code in the file is executed."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no saved state {os.fspath(path)}: nothing to resume")
    try:
        with zipfile.ZipFile(path) as archive:  # torch.load does not compare the checksums
            damaged = archive.testzip()
        if damaged is not None:
            raise zipfile.BadZipFile(damaged)
        contents: dict[str, Any] = torch.load(path, "cpu", weights_only=True)
        number = contents.pop("format")
        state = None if number != FORMAT else _from_contents(contents)
    except Exception as error:  # torch raises many types for a damaged file
        raise CovpoolError(
            f"{os.fspath(path)} is damaged, or is not the state of a training: start a new run; "
            "init.weights=RUN/last.safetensors starts from the weights of this one"
        ) from error
    if state is None:
        raise CovpoolError(
            f"{os.fspath(path)} has format {number}, and this covpool reads format {FORMAT}: use the version that "
            "wrote it"
        )
    return state


def _from_contents(contents: dict[str, Any]) -> TrainingState:
    """The state in the contents of a file, whose parts must have their types."""
    position = TypeAdapter(TrainingPosition).validate_python(vars(TrainingPosition(**contents.pop("progress"))))
    if position.step_in_epoch and not len(position.sums) == len(position.logged) == len(NAMES):
        raise ValueError("the sums of a part of an epoch are not whole")
    _Contents.model_validate(contents)
    network, data, recipe = contents.pop("network", None), contents.pop("data", {}), contents.pop("recipe", None)
    json.dumps((network, data, recipe))  # fails on what JSON cannot hold
    return TrainingState(position, contents, network, data, recipe)


def collect(
    network: nn.Module, optimizer: torch.optim.Optimizer, *, ema: nn.Module | None, scaler: dict[str, Any]
) -> dict[str, Any]:
    """Collect all tensors of a training. Every process must call this function.

    Args:
        network: The network as the strategy wraps it.
        optimizer: Its optimizer.
        ema: The copy with averaged weights, if there is one.
        scaler: State of the loss scaling of half precision.
    """
    averaged: dict[str, Tensor] = {} if ema is None else {k: v.cpu() for k, v in ema.state_dict().items()}
    with _plain_options(optimizer), _no_first_step(optimizer):
        optimizer_state = get_optimizer_state_dict(network, optimizer, options=WHOLE)
    return {
        "model": get_model_state_dict(network, options=WHOLE),
        "optimizer": optimizer_state,
        "ema": averaged,
        "scaler": scaler,
    }


def restore(
    tensors: dict[str, Any],
    network: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    *,
    ema: nn.Module | None,
    is_sharded: bool = False,
) -> None:
    """Load the tensors of `collect`, except the scaler's, into a network and its optimizer.

    Args:
        tensors: From `collect`.
        network: The network as the strategy wraps it.
        optimizer: Its optimizer; None for a new one, which has no state yet.
        ema: The copy with averaged weights, if there is one.
        is_sharded: Whether the weights are spread over processes.
    """
    if not tensors.get("model") or not tensors.get("optimizer", {}).get("param_groups"):
        raise CovpoolError("the saved state has no weights or no optimizer, so it is damaged: start a new run")
    found = "" if is_sharded else misfits(network, tensors["model"])
    if not found and ema is not None:
        found = misfits(ema, tensors.get("ema", {}))
    if found:
        raise CovpoolError(f"the saved weights do not fit the network ({found}), so they are damaged: start a new run")
    if optimizer is not None and is_sharded:
        set_optimizer_state_dict(network, optimizer, tensors["optimizer"], options=WHOLE)
    elif optimizer is not None:
        _restore_optimizer(tensors["optimizer"], network, optimizer)
    set_model_state_dict(network, tensors["model"], options=WHOLE)  # last: torch may take a step to fill the optimizer
    if ema is not None:
        ema.load_state_dict(tensors["ema"])


def _restore_optimizer(saved: dict[str, Any], network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Match parameters by name, because the order of saved groups may differ."""
    names = {parameter: name for name, parameter in network.named_parameters()}
    groups = []
    for group in optimizer.param_groups:
        members = [names[parameter] for parameter in group["params"]]
        before = next((each for each in saved["param_groups"] if members[0] in each["params"]), None)
        if before is None or not all(_is_like(before.get(key, value), value) for key, value in group.items()):
            raise CovpoolError(f"{DAMAGED_OPTIMIZER}: the group of {members[0]} has other options")
        groups.append({**group, **before, "params": members})
    for parameter, name in names.items():
        for key, value in saved["state"].get(name, {}).items():
            # Factored statistics have fewer dimensions, or dimensions of size 1.
            sizes = value.shape if isinstance(value, Tensor) and value.ndim == parameter.ndim else ()
            if any(size not in (1, whole) for size, whole in zip(sizes, parameter.shape, strict=False)):
                raise CovpoolError(f"{DAMAGED_OPTIMIZER}: {key} of {name} has the shape {tuple(sizes)}")
    whole = {"state": saved["state"], "param_groups": groups}
    try:
        _try_step(optimizer, whole)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise CovpoolError(f"{DAMAGED_OPTIMIZER}: {error}") from error
    optimizer.load_state_dict(whole)


def _try_step(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Take a step with a copy of a state: only the optimizer knows what it needs. It may change the weights."""
    optimizer.load_state_dict(copy.deepcopy(saved))
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    try:
        optimizer.step()
    finally:
        for parameter, grad in zip(parameters, before, strict=True):
            parameter.grad = grad


def _is_like(saved: object, value: object) -> bool:
    """Whether a saved option of an optimizer can replace another. Options of the machine are not saved."""
    if value is None or isinstance(value, Tensor | torch.dtype):
        return True
    number = int | float  # bool is an int
    return isinstance(saved, number if isinstance(value, number) else type(value))


@contextmanager
def _plain_options(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Replace options that belong to this machine or that torch's state dicts cannot hold; the recipe sets them again.

    Those are dtypes, the fused and capturable forms of a step, and learning rates on the device.
    """
    groups = optimizer.param_groups
    before = [dict(group) for group in groups]
    for group in groups:
        for key, value in list(group.items()):
            if isinstance(value, torch.dtype) or key in ("fused", "capturable"):
                del group[key]
            elif isinstance(value, Tensor):
                group[key] = value.item()
    try:
        yield
    finally:
        for group, saved in zip(groups, before, strict=True):
            group.update(saved)


@contextmanager
def _no_first_step(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Keep torch from taking a step to fill an empty optimizer, as that of SGD without momentum: a gradient does."""
    parameter = optimizer.param_groups[0]["params"][0]
    before = parameter.grad
    parameter.grad = torch.zeros_like(parameter) if before is None else before
    try:
        yield
    finally:
        parameter.grad = before
