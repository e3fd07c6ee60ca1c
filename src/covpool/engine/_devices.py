"""Where a training runs: lightning's Fabric, told by a recipe."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from lightning.fabric import Fabric
from lightning.fabric.strategies.fsdp import FSDPStrategy
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor

from covpool._check import check_choice
from covpool._errors import CovpoolError
from covpool.recipe import Devices, Precision

PRECISIONS: dict[Precision, Any] = {"32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
STRATEGIES = ("auto", "ddp", "fsdp")


def make_fabric(devices: Devices, precision: Precision) -> Fabric:
    """Fabric for the devices of a recipe; under torchrun, which has started the processes, for as many as there are.

    >>> make_fabric(Devices(accelerator="cpu"), "32").world_size
    1
    """
    check_choice("devices.strategy", devices.strategy, STRATEGIES)
    if precision == "fp16" and (devices.accelerator == "cpu" or not torch.accelerator.is_available()):
        raise CovpoolError("fp16 needs a GPU: use train.precision=bf16")
    count, nodes = _count(devices.devices), devices.nodes
    if torch.distributed.is_torchelastic_launched():
        count = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // count
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)  # what it announces stands in the recipe
    try:
        return Fabric(
            accelerator=devices.accelerator,
            devices=count,
            num_nodes=nodes,
            strategy=devices.strategy,
            precision=PRECISIONS[precision],
        )
    except (MisconfigurationException, ValueError, TypeError) as error:
        raise CovpoolError(
            f"`devices` must name what this machine has; got accelerator {devices.accelerator!r}, devices "
            f"{devices.devices!r}, strategy {devices.strategy!r}: {error}"
        ) from error


@contextmanager
def reproducible(deterministic: bool) -> Iterator[None]:
    """The same result in every run on a GPU too, or an error where an operation cannot; else cuDNN's fastest choice."""
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = not deterministic
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]


def leave_processes() -> None:
    """Take leave of the other processes, where there are any, at the end of a program.

    Threads of gloo's that are still there when Python ends may abort it, now and then. Not after an error: the others
    may be waiting for this one, and then this one for them.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def is_sharded(fabric: Fabric) -> bool:
    """Whether no process holds the whole network."""
    return isinstance(fabric.strategy, FSDPStrategy)


def summed(fabric: Fabric, x: Tensor) -> Tensor:
    """The sum over all processes, all of which must take part."""
    return x if fabric.world_size == 1 else cast(Tensor, fabric.all_reduce(x.clone(), reduce_op="sum"))


def gathered(fabric: Fabric, x: Tensor) -> Tensor:  # (m, ...) -> (processes * m, ...)
    """The tensors of all processes one after another; all must take part, with the same shape.

    A sum of what each puts in its own place: Fabric's own gathering calls what torch warns of.
    """
    whole = x.new_zeros(fabric.world_size, *x.shape)
    whole[fabric.global_rank] = x
    return summed(fabric, whole).flatten(0, 1)


def _count(devices: str) -> Any:
    """In Fabric's words: "auto", a number of devices, or a list of their numbers."""
    if devices == "auto":
        return devices
    try:
        numbers = [int(number) for number in devices.split(",")]
    except ValueError:
        raise CovpoolError(f'`devices.devices` must be "auto", a number, or a list as "0,1"; got {devices!r}') from None
    return numbers if "," in devices else numbers[0]
