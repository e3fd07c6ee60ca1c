"""The state of a training in one file, from which it continues as if it had never stopped.

What a step draws at random, the order of the images and the learning rate are functions of the seed and the step: none
of it needs to be kept.
"""

import os
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

from covpool.io.atomic import replacing

FILE = "state.pt"
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


def save_state(path: Path, progress: Progress, tensors: dict[str, Any]) -> None:
    """Write the state; after a crash there is the old file or the new one.

    Args:
        path: of the file.
        progress: how far it is.
        tensors: of `collect`.
    """
    with replacing(path) as partial:
        torch.save({"format": FORMAT, "progress": vars(progress), **tensors}, partial)


def load_state(path: Path) -> tuple[Progress, dict[str, Any]]:
    """What `save_state` wrote; nothing in the file is executed."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no saved state {os.fspath(path)}: nothing to resume")
    try:
        contents: dict[str, Any] = torch.load(path, "cpu", weights_only=True)
        form = contents.pop("format")
    except Exception as error:  # of a damaged file torch complains in many ways
        raise ValueError(f"{os.fspath(path)} is damaged, or no state of a training: start the run again") from error
    if form != FORMAT:
        raise ValueError(
            f"{os.fspath(path)} has format {form}, and this covpool reads {FORMAT}: use the one that wrote it"
        )
    return Progress(**contents.pop("progress")), contents


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
    return {
        "model": get_model_state_dict(network, options=WHOLE),
        "optimizer": get_optimizer_state_dict(network, optimizer, options=WHOLE),
        "ema": averaged,
        "scaler": scaler,
    }


def restore(
    tensors: dict[str, Any], network: nn.Module, optimizer: torch.optim.Optimizer, *, ema: nn.Module | None
) -> None:
    """Put everything that `collect` gave back in place, but for the scaler."""
    set_model_state_dict(network, tensors["model"], options=WHOLE)
    set_optimizer_state_dict(network, optimizer, tensors["optimizer"], options=WHOLE)
    if ema is not None:
        ema.load_state_dict(tensors["ema"])
