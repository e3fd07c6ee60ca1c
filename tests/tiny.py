"""A training that takes seconds: a folder of small noisy images, and a recipe with a tiny network."""

import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from covpool._records import read_lines
from covpool.cli import main
from covpool.data._settings import Augment, Data, ResolvedAugment
from covpool.recipe._schema import Devices, Evaluate, Model, Optimizer, Pool, Recipe, Train

CLASSES = ("blue", "green", "red")
TIMES = ("images_per_s", "compute_images_per_s", "seconds", "waited", "evaluation_seconds")


def make_tree(root: Path, *, train: int = 16, test: int = 4, size: int = 36) -> Path:
    """Make root/train and root/test, with a folder of noisy images of one tint per class."""
    rng = np.random.default_rng(0)
    for part, count in (("train", train), ("test", test)):
        for channel, name in enumerate(CLASSES):
            folder = root / part / name
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(0, 180, (size, size, 3))
                pixels[..., channel] += 20
                Image.fromarray(pixels.astype("uint8")).save(folder / f"{i}.png")
    return root


def tiny_recipe(root: Path, **tables: dict[str, Any]) -> Recipe:
    """A recipe for `make_tree`. Keyword arguments change the settings of its tables."""
    recipe = Recipe(
        name="tiny",
        data=Data(root=str(root), workers=0),
        augment=Augment(**dict(ResolvedAugment(size=32, resize=(32,)))),
        model=Model(backbone="test_resnet"),
        pool=Pool(options={"reduce_to": 8}),
        optimizer=Optimizer(lr=0.05),
        train=Train(epochs=2, batch_size=12, log_every=2),
        evaluate=Evaluate(batch_size=6),
        devices=Devices(accelerator="cpu"),
    )
    return recipe.changed(**tables)


def untimed_log(run: Path) -> list[dict[str, Any]]:
    """The log without times."""
    return [{k: v for k, v in event.items() if k not in TIMES} for event in read_lines(run / "log.jsonl")]


class Fork:
    """The command line in a copy of this process, which has torch imported already. Stands in for subprocess.Popen."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self._printed = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by `communicate`)
        self._output = ""
        self._process = multiprocessing.get_context("fork").Process(target=self._main, args=(arguments, environment))
        self._process.start()
        self.pid = self._process.pid

    def _main(self, arguments: list[str], environment: dict[str, str]) -> None:
        os.environ.update(environment)
        sys.argv = ["covpool", *arguments]
        with redirect_stdout(self._printed), redirect_stderr(self._printed):
            main()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        self._process.join(timeout)
        assert self.returncode is not None, f"still running after {timeout} seconds"
        if not self._printed.closed:
            with self._printed:
                self._printed.seek(0)
                self._output = self._printed.read()
        return self._output, None


Process = subprocess.Popen[str] | Fork


def start(*arguments: object, program: tuple[str, ...] = (), **environment: str) -> Process:
    """Start the command line in another process.

    Without a GPU that is a copy of this one. Name a `program`, such as torchrun or ("covpool",), for a new process.
    """
    known = {"OMP_NUM_THREADS": "1", "COLUMNS": "200", **environment}
    if not program and not torch.cuda.is_available():
        return Fork([*map(str, arguments)], known)
    command = [sys.executable, "-m", *(program or ("covpool",)), *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **known}
    )


def finish(process: Process, seconds: float = 120) -> str:
    """Wait for a process, check that it succeeded, and return what it printed."""
    output, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, output
    return output


def free_ports(count: int) -> list[str]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [str(one.getsockname()[1]) for one in sockets]


def start_nodes(port: str, *arguments: object, **environment: str) -> list[Process]:
    """Start two processes as torchrun would on two nodes; NCCL must not notice that they share a GPU."""
    nodes = {
        "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test",
        "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", **environment,
    }  # fmt: skip
    return [
        start(*arguments, RANK=str(rank), GROUP_RANK=str(rank), NCCL_HOSTID=f"node{rank}", **nodes) for rank in range(2)
    ]
