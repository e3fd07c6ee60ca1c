"""covpool.ops.eigh."""

import importlib

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import CHANNELS, features, hard_matrices
from covpool.ops.eigh import choose_solver, eigh
from ops.operations import OPERATIONS
from ops.oracles import randn, relative_error, value_and_gradient


@pytest.mark.parametrize("c", CHANNELS)
def test_eigenvalues_are_numpys_in_ascending_order(c: int) -> None:
    m = randn(2, c, c)
    a = m + m.mT
    eigenvalues, _ = eigh(a)
    np.testing.assert_allclose(eigenvalues.numpy(), np.linalg.eigvalsh(a.numpy()), atol=1e-12 * c)


@pytest.mark.parametrize("name", hard_matrices())
def test_decomposition_multiplies_back(name: str) -> None:
    a = hard_matrices()[name]
    eigenvalues, u = eigh(a)
    torch.testing.assert_close(u @ torch.diag(eigenvalues) @ u.T, a, rtol=0, atol=1e-14 * float(a.abs().max()) * 10)
    torch.testing.assert_close(u.T @ u, torch.eye(len(a), dtype=a.dtype), rtol=0, atol=1e-14)


@pytest.mark.parametrize("fault", [torch.nan, torch.inf, -torch.inf])
def test_a_fault_gives_nan_eigenvalues_in_its_own_item(fault: float) -> None:
    a = torch.eye(3).repeat(3, 1, 1)
    a[1, 0, 2] = a[1, 2, 0] = fault
    eigenvalues, u = eigh(a)
    assert eigenvalues[1].isnan().all()
    assert torch.equal(eigenvalues[::2], torch.ones(2, 3))
    assert u.isfinite().all()


def test_opposite_infinities_do_not_cancel() -> None:
    a = torch.diag(torch.tensor([torch.inf, -torch.inf]))
    assert eigh(a)[0].isnan().all()


def test_largest_finite_numbers_are_no_fault() -> None:
    a = torch.diag(torch.tensor([1e38, 3e38]))
    assert eigh(a)[0].isfinite().all()


def test_empty_batch() -> None:
    eigenvalues, u = eigh(torch.zeros(0, 3, 3))
    assert eigenvalues.shape == (0, 3)
    assert u.shape == (0, 3, 3)


# --- the batched solver ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device_type", "c", "exporting", "solver"),
    [
        ("cuda", 2, False, "batched"),
        ("cuda", 2, True, "torch"),
        ("cpu", 31, False, "torch"),
        ("cpu", 32, False, "batched"),
        ("cpu", 32, True, "torch"),
        ("mps", 32, False, "torch"),
    ],
)
def test_choice_of_the_solver(device_type: str, c: int, exporting: bool, solver: str) -> None:
    assert choose_solver(device_type, c, exporting) == solver


class TestBatchedSolver:
    """The batched operation. On a CPU it calls torch's solver; the code around it is the same as on a GPU."""

    @pytest.fixture(autouse=True)
    def _chosen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = importlib.import_module("covpool.ops.eigh")  # the function hides it in covpool.ops
        monkeypatch.setattr(module, "choose_solver", lambda *_: "batched")

    @pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (0, 3, 3), (2, 1, 4, 3, 3), (2, 1, 1)])
    def test_any_leading_dimensions(self, shape: tuple[int, ...]) -> None:
        m = randn(*shape)
        a = m + m.mT
        for ours, torchs in zip(eigh(a), torch.linalg.eigh(a), strict=True):
            assert torch.equal(ours, torchs)

    def test_a_fault_stays_in_its_own_item(self) -> None:
        a = torch.eye(3).repeat(3, 1, 1)
        a[1, 0, 2] = torch.nan
        assert eigh(a)[0].isnan().all(-1).tolist() == [False, True, False]

    @pytest.mark.parametrize("name", ["powm", "powm_dual", "logm", "isqrt_spectral"])
    def test_every_transform_of_torch(self, name: str) -> None:
        fast = OPERATIONS[name].fast
        x, dx = features(3, 6, 8), features(3, 6, 8, seed=1)

        def loss(x: Tensor) -> Tensor:
            return fast(x).square().sum()

        expected = torch.func.grad(loss)(x)
        assert relative_error(torch.vmap(torch.func.grad(loss))(x), expected) <= 1e-10
        assert relative_error(torch.func.grad(lambda x: torch.vmap(fast)(x).square().sum())(x), expected) <= 1e-10
        _, slope = torch.func.jvp(loss, (x,), (dx,))
        assert float(slope) == pytest.approx(float((expected * dx).sum()), rel=1e-8)

    @pytest.mark.parametrize("name", ["powm", "powm_dual", "logm"])
    def test_compiles_without_graph_breaks(self, name: str) -> None:
        torch.compiler.reset()
        fast = OPERATIONS[name].fast
        x = features(2, 6, 4)
        z, dx = value_and_gradient(fast, x)
        compiled, compiled_dx = value_and_gradient(torch.compile(fast, fullgraph=True, backend="aot_eager"), x)
        assert relative_error(compiled, z) <= 1e-12
        assert relative_error(compiled_dx, dx) <= 1e-10
