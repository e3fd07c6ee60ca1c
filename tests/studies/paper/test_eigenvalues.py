"""Eigenvalues over a test set: the counts of all batches together."""

import math
from pathlib import Path

import pytest
import torch

from covpool.diagnostics import Spectra
from covpool.studies.paper import count_eigenvalues, plot_eigenvalues


def test_batches_are_counted_together(tmp_path: Path) -> None:
    first = Spectra(torch.tensor([[200.0, 0.0]]), torch.tensor([[10.0, 0.0]]), 4)
    second = Spectra(torch.tensor([[2.0, 0.02], [1e-30, 0.0]]), torch.tensor([[1.0, 0.1], [1e-15, 0.0]]), 4)
    before, after = count_eigenvalues(iter([first, second]))
    assert (before.which, before.images, before.eigenvalues, before.largest) == ("before", 3, 6, 200.0)
    assert before.zero == pytest.approx(2 / 6) and sum(before.share) == pytest.approx(4 / 6)
    filled = [edge for edge, share in zip(before.edges, before.share, strict=False) if share]
    assert filled == pytest.approx([-12, -1.7, 0.3, 2.3], abs=1e-9)  # the smallest is in the first bin
    assert after.largest == 10 and math.isclose(sum(after.share), 4 / 6)
    plot_eigenvalues([before, after], "test", tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000


def test_a_pool_without_a_matrix_has_only_the_first_distribution() -> None:
    assert [one.which for one in count_eigenvalues(iter([Spectra(torch.ones(1, 2), None, 4)]))] == ["before"]
    with pytest.raises(ValueError, match="no image"):
        count_eigenvalues(iter([]))
