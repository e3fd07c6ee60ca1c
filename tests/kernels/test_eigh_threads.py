"""covpool.kernels.eigh_threads: whole matrices for the threads of torch."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from cases import hard_matrices
from covpool.kernels import eigh_threads
from covpool.kernels.eigh import eigh_batched
from covpool.kernels.eigh_threads import Scratch, eigh_by_threads, serves
from kernels.test_eigh import assert_decomposes, every_dtype, symmetric


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    if not serves(torch.zeros(2, 64, 64)):
        pytest.skip("this torch has another LAPACK or OpenMP")
    yield
    torch.set_num_threads(before)


@every_dtype
@pytest.mark.parametrize("b", [1, 2, 3, 20])
@pytest.mark.parametrize("c", [1, 2, 33, 64, 130])
def test_decomposes_and_keeps_the_matrices(b: int, c: int, dtype: torch.dtype) -> None:
    a = symmetric(b, c, dtype=dtype)
    before = a.clone()
    eigenvalues, u = eigh_by_threads(a)
    assert torch.equal(a, before)
    assert_decomposes(a, eigenvalues, u)


@pytest.mark.parametrize("name", hard_matrices())
def test_hard_matrices(name: str) -> None:
    a = hard_matrices()[name].repeat(3, 1, 1)
    assert_decomposes(a, *eigh_by_threads(a))


def test_same_strides_and_lower_triangle_as_torch() -> None:
    a = symmetric(3, 9) + torch.randn(3, 9, 9).double().triu(1)
    for ours, torchs in zip(eigh_by_threads(a), torch.linalg.eigh(a), strict=True):
        torch.testing.assert_close(ours, torchs, rtol=0, atol=1e-12)
        assert ours.stride() == torchs.stride()


@pytest.mark.parametrize("view", ["transposed", "strided", "expanded"])
def test_views(view: str) -> None:
    a = symmetric(4, 6)
    views = {"transposed": a.mT, "strided": symmetric(8, 12)[::2, ::2, ::2], "expanded": a[:1].expand(3, 6, 6)}
    assert_decomposes(views[view], *eigh_by_threads(views[view]))


def test_same_numbers_in_every_call() -> None:
    a = symmetric(7, 100, dtype=torch.float32)
    first = eigh_by_threads(a)
    for _ in range(5):
        assert all(map(torch.equal, first, eigh_by_threads(a)))


def test_a_matrix_on_which_lapack_fails_gets_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses = iter([0, 4, 0])

    def solver(*arguments: Any) -> None:
        arguments[-1]._obj.value = next(statuses)

    a, failed = symmetric(3, 5), []
    space = Scratch(a.new_empty(1), torch.empty(1, dtype=torch.int32))
    eigh_threads._solve(solver, iter(range(3)), a, a.new_empty(3, 5), space, failed)
    assert failed == [1]

    monkeypatch.setattr(eigh_threads, "_solve", lambda *arguments: arguments[-1].append(1))
    assert eigh_by_threads(a)[0].isnan().all(-1).tolist()[1]


class TestChoice:
    def test_one_matrix_little_work_one_thread_or_another_device_is_left_to_torch(self) -> None:
        a = symmetric(2, 64)
        assert serves(a)
        assert not serves(a[:1])
        assert not serves(a[:, :32, :32])
        assert not serves(a.to("meta"))
        torch.set_num_threads(1)
        assert not serves(a)

    def test_another_library_is_left_to_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(eigh_threads, "_library", lambda: None)
        a = symmetric(2, 64)
        assert not serves(a)
        assert_decomposes(a, *eigh_batched(a))

    @pytest.mark.parametrize("missing", ["mkl", "file", "GOMP_parallel"])
    def test_libraries_that_do_not_serve(self, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
        if missing == "mkl":
            monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
        elif missing == "file":
            monkeypatch.setattr(Path, "exists", lambda path: False)
        else:
            monkeypatch.setattr(ctypes, "CDLL", lambda path: ctypes.pythonapi)
        eigh_threads._library.cache_clear()
        try:
            assert eigh_threads._library() is None
        finally:
            eigh_threads._library.cache_clear()


class TestThreads:
    def test_an_error_in_any_thread_reaches_the_caller(self) -> None:
        library = eigh_threads._library()
        assert library is not None

        def fail() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            eigh_threads._in_parallel(library, 2, fail)
        assert_decomposes(symmetric(3, 8), *eigh_by_threads(symmetric(3, 8)))

    def test_called_from_several_threads_at_once(self) -> None:
        a = symmetric(6, 40)
        expected = eigh_by_threads(a)
        found = []

        def call() -> None:
            torch.set_num_threads(2)  # OpenMP counts per thread
            found.extend(eigh_by_threads(a) for _ in range(5))

        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert len(found) == 20
        for result in found:
            assert all(map(torch.equal, expected, result))

    def test_ctrl_c_ends_a_long_call(self) -> None:
        program = (
            "import torch\n"
            "from covpool.kernels.eigh_threads import eigh_by_threads\n"
            "torch.set_num_threads(2)\n"
            "a = torch.randn(1, 300, 300).expand(4000, -1, -1)\n"
            "print('started', flush=True)\n"
            "eigh_by_threads(a + a.mT)\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "2"},
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        threading.Timer(1.0, process.send_signal, [signal.SIGINT]).start()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGINT
        assert errors.rstrip().endswith("KeyboardInterrupt")
