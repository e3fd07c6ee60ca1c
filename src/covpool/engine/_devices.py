"""Devices, precision and processes: lightning's Fabric, set up from a recipe."""

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.strategies.fsdp import FSDPStrategy
from lightning_fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor

from covpool._errors import CovpoolError, check_choice
from covpool.kernels import freed_memory_kept
from covpool.recipe import Devices, Precision

PRECISIONS: dict[Precision, Any] = {"32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
HALF: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}
STRATEGIES = ("auto", "ddp", "fsdp")
# From here on cuDNN tries its algorithms. For MobileNetV2 on an H200 this takes 10 s and gains nothing.
MANY_STEPS = 10_000
MEMORY_SETTINGS = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def make_fabric(devices: Devices, precision: Precision) -> Fabric:
    """Make the Fabric for the devices of a recipe; under torchrun, for the processes that torchrun started.

    Args:
        devices: The table `devices` of the recipe.
        precision: The precision of the training.

    >>> make_fabric(Devices(accelerator="cpu"), "32").world_size
    1
    """
    check_choice("devices.strategy", devices.strategy, STRATEGIES)
    if precision == "fp16" and (devices.accelerator == "cpu" or not torch.accelerator.is_available()):
        raise CovpoolError("`train.precision` = 'fp16' needs a GPU: use train.precision=bf16")
    count, nodes = _count(devices.devices), devices.nodes
    if torch.distributed.is_torchelastic_launched():
        count = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // count
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it announces what the recipe says
    try:
        fabric = Fabric(
            accelerator=devices.accelerator,
            devices=count,
            num_nodes=nodes,
            strategy=devices.strategy,
            precision=PRECISIONS[precision],
        )
    except (MisconfigurationException, ValueError, TypeError, RuntimeError, ImportError) as error:
        raise CovpoolError(
            f"`devices` must name what this machine has; got accelerator {devices.accelerator!r}, devices "
            f"{devices.devices!r}, strategy {devices.strategy!r}: {error}"
        ) from error
    environment = getattr(fabric.strategy, "cluster_environment", None)
    if nodes > 1 and isinstance(environment, LightningEnvironment) and "MASTER_ADDR" not in os.environ:
        raise CovpoolError(
            f"`devices.nodes` = {nodes}, and nothing says where the other nodes are, so this one would wait for them: "
            "start the training by torchrun on each node, or set devices.nodes=1"
        )
    return fabric


@contextmanager
def reproducible(deterministic: bool, *, steps: int = MANY_STEPS) -> Iterator[None]:
    """Make every operation deterministic, or an error if it cannot be; otherwise let cuDNN try which one is fastest.

    Args:
        deterministic: Whether operations must be deterministic.
        steps: Number of training steps. Trying takes too long for few of them.
    """
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS requires it
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = not deterministic and steps >= MANY_STEPS
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]


def leave_processes() -> None:
    """Leave the group of processes, if there is one, at the end of a program.

    Threads of gloo that still run when Python exits can abort it. Do not call this after an error: the other processes
    may be waiting for this one, and leaving would wait for them.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def is_sharded(fabric: Fabric) -> bool:
    """Whether the weights are spread over the processes, so that none holds the whole network."""
    return isinstance(fabric.strategy, FSDPStrategy)


def autocast(precision: Precision, device: torch.device | str) -> AbstractContextManager[None]:
    """The autocast context of a precision; for "32" a context that does nothing."""
    dtype = HALF.get(precision)
    return nullcontext() if dtype is None else torch.autocast(torch.device(device).type, dtype)


def reusing_memory(device: torch.device | str) -> AbstractContextManager[None]:
    """A context in which tensors on a CPU use the memory of freed ones; on a GPU torch does that itself.

    Settings of glibc in the environment stay as they are.
    """
    is_set = any(name in os.environ for name in MEMORY_SETTINGS)
    return nullcontext() if is_set or torch.device(device).type != "cpu" else freed_memory_kept()


def summed(fabric: Fabric, x: Tensor) -> Tensor:
    """Sum a tensor over all processes. Every process must call this function."""
    return x if fabric.world_size == 1 else cast(Tensor, fabric.all_reduce(x.clone(), reduce_op="sum"))


def gathered(fabric: Fabric, x: Tensor) -> Tensor:  # (m, ...) -> (processes * m, ...)
    """Concatenate the tensors of all processes. Every process must call this function with the same shape.

    Computed as a sum of zero-padded tensors, because Fabric's own gathering calls a function that torch deprecates.
    """
    whole = x.new_zeros(fabric.world_size, *x.shape)
    whole[fabric.global_rank] = x
    return summed(fabric, whole).flatten(0, 1)


def _count(devices: str) -> Any:
    """The devices as Fabric expects them: "auto", a number of devices, or a list of device numbers."""
    if devices == "auto":
        return devices
    try:
        numbers = [int(number) for number in devices.split(",")]
    except ValueError:
        raise CovpoolError(
            f'`devices.devices` must be "auto", a number, or a list such as "0,1"; got {devices!r}'
        ) from None
    return numbers if "," in devices else numbers[0]
