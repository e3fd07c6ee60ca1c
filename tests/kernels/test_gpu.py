"""covpool.kernels.gpu: which GPUs the kernels support, and whether compiled kernels fit into shared memory."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.torch_version import TorchVersion

from covpool.kernels import gpu
from covpool.kernels.shape import Tiling, at_once

COMPILE = Path(__file__).with_name("compile_for.py")
RESERVED = 1024  # bytes of shared memory that the driver takes of each program
# Kernels that wait for memory, to which spilled registers would add.
STREAMING = {
    "depthwise_kernel",
    "filter_gradient_kernel",
    "normalize_batch_kernel",
    "batch_gradient_kernel",
    "cut_kernel",
}
SPILLED = 128  # bytes of a thread; a few loads and stores


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A GPU whose properties the test sets."""
    properties = SimpleNamespace(major=9, minor=0, shared_memory_per_block_optin=gpu.LARGE_SHARED_MEMORY)

    def properties_of(index: int) -> SimpleNamespace:
        Path(os.devnull).read_bytes()  # torch.compile cannot trace this
        return properties

    cuda = SimpleNamespace(is_available=lambda: True, get_device_properties=properties_of)
    release = TorchVersion("2.10")
    monkeypatch.setattr(gpu, "torch", SimpleNamespace(cuda=cuda, version=torch.version, __version__=release))
    gpu._of_gpu.cache_clear()
    yield properties
    gpu._of_gpu.cache_clear()


def test_multiprocessors(pretend: SimpleNamespace) -> None:
    pretend.multi_processor_count = 84
    assert [gpu.multiprocessors(torch.device(kind)) for kind in ("cpu", "cuda")] == [0, 84]


def test_a_cpu_and_a_gpu_that_is_not_there_have_no_limit(pretend: SimpleNamespace) -> None:
    gpu.torch.cuda.is_available = lambda: False  # type: ignore[method-assign]
    pretend.major = 1
    for device in ("cpu", "cuda:3"):
        assert gpu.shared_memory(torch.device(device)) == gpu.LARGE_SHARED_MEMORY


@pytest.mark.parametrize(
    ("capability", "has", "expected"),
    [((9, 0), 232448, 232448), ((8, 6), 101376, 101376), ((7, 5), 65536, 0), ((7, 0), 98304, 0)],
)
def test_gpus_of_the_last_generations(
    pretend: SimpleNamespace, capability: tuple[int, int], has: int, expected: int
) -> None:
    (pretend.major, pretend.minor), pretend.shared_memory_per_block_optin = capability, has
    assert gpu.shared_memory(torch.device("cuda")) == expected


@pytest.mark.parametrize(
    ("release", "capability", "expected"),
    [
        ("2.9.1+cu128", 10, 0),
        ("2.10.0", 10, gpu.LARGE_SHARED_MEMORY),
        ("2.11.0", 11, 0),
        ("2.12.0+cu130", 11, gpu.LARGE_SHARED_MEMORY),
        ("2.9.1", 9, gpu.LARGE_SHARED_MEMORY),
        ("2.9.1", 12, gpu.LARGE_SHARED_MEMORY),
    ],
)
def test_a_compiler_that_fails_for_this_gpu(
    pretend: SimpleNamespace, release: str, capability: int, expected: int
) -> None:
    gpu.torch.__version__, pretend.major = TorchVersion(release), capability
    assert gpu.shared_memory(torch.device("cuda")) == expected


@pytest.mark.parametrize(
    ("room", "installed", "expected"),
    [
        (gpu.LARGE_SHARED_MEMORY, True, 128),
        (gpu.LARGE_SHARED_MEMORY - 1, True, 64),
        (gpu.MIN_SHARED_MEMORY, True, 64),
        (gpu.MIN_SHARED_MEMORY - 1, True, 0),
        (gpu.LARGE_SHARED_MEMORY, False, 0),
    ],
)
def test_largest_tile(
    pretend: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, room: int, installed: bool, expected: int
) -> None:
    pretend.shared_memory_per_block_optin = room
    monkeypatch.setattr(gpu, "TRITON_INSTALLED", installed)
    assert gpu.largest_tile(torch.device("cuda")) == expected


def test_other_makes_are_left_to_torch(pretend: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "7.0")
    assert gpu.shared_memory(torch.device("cuda", 0)) == 0


def test_the_compiler_takes_the_shared_memory_as_a_constant(pretend: SimpleNamespace) -> None:
    @torch.compile(fullgraph=True, backend="eager")
    def plus_room(x: torch.Tensor) -> torch.Tensor:
        return x + gpu.shared_memory(torch.device("cuda", 0))

    assert plus_room(torch.zeros(1)).item() == gpu.LARGE_SHARED_MEMORY


FAILS = pytest.mark.skipif(torch.__version__ < "2.10", reason="older Triton cannot compile for it")


@pytest.mark.parametrize(
    ("capability", "room", "what"),
    [
        (86, gpu.MIN_SHARED_MEMORY, "once"),
        pytest.param(86, gpu.MIN_SHARED_MEMORY, "every_way", marks=pytest.mark.long),
        pytest.param(90, gpu.LARGE_SHARED_MEMORY, "every_way", marks=pytest.mark.long),
        pytest.param(100, gpu.LARGE_SHARED_MEMORY, "every_way", marks=[FAILS, pytest.mark.long]),
    ],
)
def test_every_kernel_compiles_and_fits(capability: int, room: int, what: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", str(COMPILE), str(capability), str(room), what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    needed = json.loads(done.stdout)
    chains = {"chain_kernel", "pair_chain_kernel", "resident_chain_kernel", "resident_pair_chain_kernel"}
    assert chains | {"moments_kernel", "gradient_kernel"} | STREAMING < {name for name, *_ in needed}
    for name, tile, shared, stack in needed:
        assert stack <= SPILLED or name not in STREAMING, (name, stack)
        waiting = name in ("chain_kernel", "pair_chain_kernel", "lyapunov_chain_kernel")
        several = at_once(Tiling(tile, 16, 4, 1, 64, 4), 1, room) if waiting else 1
        assert several * (shared + RESERVED) <= room + RESERVED, (name, tile, shared)
