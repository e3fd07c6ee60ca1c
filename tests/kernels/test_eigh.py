"""covpool.kernels.eigh: the solver on a GPU, and the code around it on any machine."""

import ctypes
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from cases import generator, hard_matrices
from covpool.kernels import eigh
from covpool.kernels.eigh import available, eigh_batched

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def symmetric(*shape: int, dtype: torch.dtype = torch.float64, device: str = "cpu") -> Tensor:
    """Random symmetric matrices (..., c, c)."""
    m = torch.randn(*shape, shape[-1], dtype=dtype, generator=generator())
    return (m + m.mT).to(device)


def assert_decomposes(a: Tensor, eigenvalues: Tensor, u: Tensor) -> None:
    """a = U diag(l) U^T, U^T U = I and l ascending, all within 100 epsilons of the dtype."""
    tolerance = 100 * torch.finfo(a.dtype).eps
    exact, v = a.double(), u.double()
    scale = torch.linalg.matrix_norm(exact).clamp(min=1e-300)
    rebuilt = (v * eigenvalues.double().unsqueeze(-2)) @ v.mT
    assert (torch.linalg.matrix_norm(rebuilt - exact) <= tolerance * scale).all()
    eye = torch.eye(a.shape[-1], dtype=torch.float64, device=a.device)
    assert ((v.mT @ v - eye).abs() <= tolerance).all()
    assert (eigenvalues.diff(dim=-1) >= 0).all()
    truth = torch.linalg.eigvalsh(exact.cpu())
    assert ((eigenvalues.double().cpu() - truth).abs().amax(-1) <= tolerance * scale.cpu()).all()


class TestWithoutAGpu:
    def test_is_torchs_solver(self) -> None:
        a = symmetric(3, 5)
        for ours, torchs in zip(eigh_batched(a), torch.linalg.eigh(a), strict=True):
            assert torch.equal(ours, torchs)

    @pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4)])
    @every_dtype
    def test_schema_shapes_strides_and_compilation(self, shape: tuple[int, int], dtype: torch.dtype) -> None:
        torch.library.opcheck(eigh_batched, (symmetric(*shape, dtype=dtype),))

    @pytest.mark.parametrize("dim", [0, 1, -1])
    def test_vmap_over_any_dimension(self, dim: int) -> None:
        a = symmetric(2, 3, 4)
        eigenvalues, u = torch.vmap(eigh_batched, in_dims=dim)(a.movedim(0, dim))
        assert_decomposes(a, eigenvalues, u)

    def test_vmap_within_vmap(self) -> None:
        a = symmetric(2, 3, 2, 4)
        eigenvalues, u = torch.vmap(torch.vmap(eigh_batched))(a)
        assert_decomposes(a, eigenvalues, u)

    def test_has_no_derivative(self) -> None:
        a = symmetric(2, 3).requires_grad_()
        with pytest.raises(RuntimeError):
            eigh_batched(a)[0].sum().backward()

    @pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
    def test_is_not_available_and_says_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        eigh._library.cache_clear()
        assert not available()
        assert not caplog.records


class TestLibrary:
    """The search for cuSOLVER, with a stand-in for the library."""

    @pytest.fixture(autouse=True)
    def _a_gpu(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(eigh, "_load_torchs_solvers", lambda device: None)
        eigh._library.cache_clear()
        yield
        eigh._library.cache_clear()

    def pretend(self, monkeypatch: pytest.MonkeyPatch, **found: SimpleNamespace) -> None:
        def load(name: str, mode: int) -> SimpleNamespace:
            if name.rsplit(".")[-1] not in found:
                raise OSError(name)
            return found[name.rsplit(".")[-1]]

        monkeypatch.setattr(ctypes, "CDLL", load)

    def cusolver(self, *functions: str) -> SimpleNamespace:
        return SimpleNamespace(**{name: SimpleNamespace(argtypes=None) for name in functions})

    def test_missing_library_is_said_once(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.pretend(monkeypatch)
        assert not available() and not available()
        (record,) = caplog.records
        assert (record.name, record.levelno) == ("covpool", logging.WARNING)
        assert "torch.linalg.eigh" in record.getMessage()

    def test_library_without_the_batched_call(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.pretend(monkeypatch, **{"11": self.cusolver("cusolverDnCreate", "cusolverDnCreateParams")})
        assert not available()
        assert len(caplog.records) == 1

    @pytest.mark.parametrize("version", ["11", "12"])
    def test_either_version_serves(self, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
        library = self.cusolver(*eigh.SIGNATURES)
        self.pretend(monkeypatch, **{version: library})
        assert available()
        assert library.cusolverDnXsyevBatched.argtypes == eigh.SIGNATURES["cusolverDnXsyevBatched"]


@pytest.mark.parametrize(("status", "name"), [(3, "CUSOLVER_STATUS_INVALID_VALUE"), (31, "unknown status")])
def test_bad_status_is_an_error_with_its_name(monkeypatch: pytest.MonkeyPatch, status: int, name: str) -> None:
    monkeypatch.setattr(eigh, "_library", lambda: SimpleNamespace(cusolverDnSetStream=lambda *_: status))
    with pytest.raises(RuntimeError, match=rf"cusolverDnSetStream returned .*{name} \({status}\)"):
        eigh._call("cusolverDnSetStream")


def test_signatures_have_as_many_arguments_as_the_c_functions() -> None:
    assert {name: len(arguments) for name, arguments in eigh.SIGNATURES.items()} == {
        "cusolverDnCreate": 1,
        "cusolverDnCreateParams": 1,
        "cusolverDnSetStream": 2,
        "cusolverDnXsyevBatched_bufferSize": 14,
        "cusolverDnXsyevBatched": 17,
    }


@gpu
class TestOnTheGpu:
    def test_torch_for_cuda_12_6_and_later_has_the_batched_solver(self) -> None:
        if torch.version.cuda and tuple(map(int, torch.version.cuda.split("."))) >= (12, 6):
            assert available()

    @every_dtype
    @pytest.mark.parametrize("c", [1, 2, 33, 49, 196, 256])
    @pytest.mark.parametrize("b", [1, 3, 20])
    def test_decomposes(self, b: int, c: int, dtype: torch.dtype) -> None:
        a = symmetric(b, c, dtype=dtype, device="cuda")
        before = a.clone()
        assert_decomposes(a, *eigh_batched(a))
        assert torch.equal(a, before)

    @pytest.mark.parametrize("name", hard_matrices())
    def test_hard_spectra(self, name: str) -> None:
        a = hard_matrices()[name].cuda().unsqueeze(0)
        assert_decomposes(a, *eigh_batched(a))

    def test_zero(self) -> None:
        a = torch.zeros(2, 7, 7, device="cuda")
        assert_decomposes(a, *eigh_batched(a))

    @every_dtype
    def test_empty_batch(self, dtype: torch.dtype) -> None:
        eigenvalues, u = eigh_batched(torch.zeros(0, 3, 3, dtype=dtype, device="cuda"))
        assert eigenvalues.shape == (0, 3) and u.shape == (0, 3, 3)
        assert eigenvalues.dtype == u.dtype == dtype

    def test_strided_input(self) -> None:
        a = symmetric(3, 20, device="cuda")
        strided = torch.stack((a, a + 1), -1)[..., 0]
        assert_decomposes(a, *eigh_batched(strided))

    def test_schema_shapes_strides_and_compilation(self) -> None:
        torch.library.opcheck(eigh_batched, (symmetric(3, 5, device="cuda"),))

    def test_vmap(self) -> None:
        a = symmetric(2, 3, 4, device="cuda")
        assert_decomposes(a, *torch.vmap(eigh_batched)(a))

    def test_failure_of_one_matrix_is_nan_in_its_item(self, monkeypatch: pytest.MonkeyPatch) -> None:
        solve = eigh._solve

        def fail(handle: eigh.Handle, a: Tensor, eigenvalues: Tensor, failed: Tensor) -> None:
            solve(handle, a, eigenvalues, failed)
            failed[1] = 2

        monkeypatch.setattr(eigh, "_solve", fail)
        eigenvalues, _ = eigh_batched(symmetric(3, 5, device="cuda"))
        assert eigenvalues.isnan().all(-1).tolist() == [False, True, False]

    def test_follows_the_current_stream(self) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            a = symmetric(20, 64, device="cuda")
            eigenvalues, u = eigh_batched(a)
        stream.synchronize()
        assert_decomposes(a, eigenvalues, u)

    def test_no_host_synchronisation(self) -> None:
        a = symmetric(3, 20, device="cuda")
        eigh_batched(a)
        torch.cuda.set_sync_debug_mode("error")
        try:
            eigh_batched(a)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def test_threads_give_their_handles_back(self) -> None:
        a = symmetric(8, 49, device="cuda")
        with ThreadPoolExecutor(4) as threads:
            results = list(threads.map(lambda _: eigh_batched(a), range(16)))
        for eigenvalues, u in results:
            assert_decomposes(a, eigenvalues, u)
        assert len(eigh._idle[torch.cuda.current_device()]) <= 5

    def test_captured_in_a_graph(self) -> None:
        a = symmetric(8, 49, device="cuda")
        held = a.clone()
        eigh_batched(held)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            eigenvalues, u = eigh_batched(held)
        held.mul_(2)
        graph.replay()
        torch.cuda.synchronize()
        assert_decomposes(2 * a, eigenvalues, u)

    def test_compiles_without_graph_breaks(self) -> None:
        torch.compiler.reset()
        a = symmetric(3, 20, device="cuda")
        eigenvalues, u = torch.compile(lambda a: eigh_batched(2 * a), fullgraph=True)(a)
        assert_decomposes(2 * a, eigenvalues, u)
