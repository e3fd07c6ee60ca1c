"""The state of a training in one file, from which it continues as if it had never stopped.

What a step draws at random, the order of the images and the learning rate are functions of the seed and the step: none
of it needs to be kept.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from covpool._errors import CovpoolError
from covpool.io import replacing

STATE_FILE = "state.pt"
FORMAT = 1
# Whole tensors on the CPU whatever the strategy: a run that was saved by eight processes goes on in one.
WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


@dataclass
class Progress:
    """How far a training has come."""

    epoch: int = 0  # whole epochs done, over all stages
    step: int = 0  # optimizer steps done, over all stages
    step_in_epoch: int = 0
    best: float = -1.0  # top-1 of the best evaluation
    best_epoch: int = 0
    seconds: float = 0.0  # of training, all sessions together
    sums: list[float] = field(default_factory=list)  # of the epoch so far, see `Meter`
    logged: list[float] = field(default_factory=list)  # the same at the last line of the log
    broken: dict[str, list[int]] = field(default_factory=dict)  # images that could not be read, by part of the set
    metrics: dict[str, float] = field(default_factory=dict)  # of the last evaluation


@dataclass
class State:
    """What a training continues from."""

    progress: Progress
    tensors: dict[str, Any]  # of `collect`
    network: dict[str, Any] | None = None  # from which `rebuild` makes it; states of earlier covpools do not say
    data: dict[str, Any] = field(default_factory=dict)  # of `describe_data`; nor do they say this


def save_state(path: Path, state: State) -> None:
    """Write the state; after a crash there is the old file or the new one."""
    about = {"progress": vars(state.progress), "network": state.network, "data": state.data}
    with replacing(path) as partial:
        torch.save({"format": FORMAT, **about, **state.tensors}, partial)


def load_state(path: Path) -> State:
    """What `save_state` wrote; nothing in the file is executed."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no saved state {os.fspath(path)}: nothing to resume")
    try:
        contents: dict[str, Any] = torch.load(path, "cpu", weights_only=True)
        form = contents.pop("format")
    except Exception as error:  # of a damaged file torch complains in many ways
        raise CovpoolError(f"{os.fspath(path)} is damaged, or no state of a training: start the run again") from error
    if form != FORMAT:
        raise CovpoolError(
            f"{os.fspath(path)} has format {form}, and this covpool reads {FORMAT}: use the one that wrote it"
        )
    progress, network, data = contents.pop("progress"), contents.pop("network", None), contents.pop("data", {})
    return State(Progress(**progress), contents, network, data)


def collect(
    network: nn.Module, optimizer: torch.optim.Optimizer, *, ema: nn.Module | None, scaler: dict[str, Any]
) -> dict[str, Any]:
    """Everything that learns; all processes must take part.

    Args:
        network: as the strategy holds it.
        optimizer: its optimizer.
        ema: the averaged copy.
        scaler: the state of the loss scaling of half precision.
    """
    averaged: dict[str, Tensor] = {} if ema is None else {k: v.cpu() for k, v in ema.state_dict().items()}
    with _without_dtypes(optimizer):
        learnt = get_optimizer_state_dict(network, optimizer, options=WHOLE)
    return {
        "model": get_model_state_dict(network, options=WHOLE),
        "optimizer": learnt,
        "ema": averaged,
        "scaler": scaler,
    }


def restore(
    tensors: dict[str, Any],
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    ema: nn.Module | None,
    is_sharded: bool = False,
) -> None:
    """Put everything that `collect` gave back in place, but for the scaler."""
    if is_sharded:
        set_optimizer_state_dict(network, optimizer, tensors["optimizer"], options=WHOLE)
    else:
        _restore_optimizer(tensors["optimizer"], network, optimizer)
    set_model_state_dict(network, tensors["model"], options=WHOLE)  # last: torch may fill an optimizer by a step
    if ema is not None:
        ema.load_state_dict(tensors["ema"])


def _restore_optimizer(saved: dict[str, Any], network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """By the names of parameters, in whatever order they were saved."""
    names = {parameter: name for name, parameter in network.named_parameters()}
    groups = []
    for group in optimizer.param_groups:
        members = [names[parameter] for parameter in group["params"]]
        before = next(each for each in saved["param_groups"] if members[0] in each["params"])
        groups.append({**group, **before, "params": members})
    optimizer.load_state_dict({"state": saved["state"], "param_groups": groups})


@contextmanager
def _without_dtypes(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Without the settings that torch's state dicts cannot hold; they come from the recipe, not from steps."""
    groups = optimizer.param_groups
    dtypes = [{key: value for key, value in group.items() if isinstance(value, torch.dtype)} for group in groups]
    for group, found in zip(groups, dtypes, strict=True):
        for key in found:
            del group[key]
    try:
        yield
    finally:
        for group, found in zip(groups, dtypes, strict=True):
            group.update(found)
