"""covpool.ops._eigh."""

import numpy as np
import pytest
import torch

from cases import CHANNELS, hard_matrices
from covpool.ops._eigh import eigh
from ops.oracles import randn


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
