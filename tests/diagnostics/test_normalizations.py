"""The functions of the normalizations, point by point and against the matrix operations."""

import math

import numpy as np
import pytest
import torch

from covpool import ops
from covpool.diagnostics.normalizations import logarithm, newton_schulz, power

VALUES = torch.tensor([[9.0, 4.0, 0.25, 0.0], [1e-3, 1e-3, 0.0, 0.0]], dtype=torch.float64)


def matrix_eigenvalues(a: torch.Tensor) -> np.ndarray:
    return np.linalg.eigvalsh(a.numpy())[..., ::-1]


@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("normalization", [None, "spectral", "frobenius"])
def test_power(alpha: float, normalization: str | None) -> None:
    found = power(VALUES, alpha, normalization=normalization)
    for row, line in zip(VALUES.tolist(), found.tolist(), strict=True):
        values = [value**alpha for value in row]
        norm = {None: 1.0, "spectral": max(values), "frobenius": math.hypot(*values)}[normalization]
        assert line == pytest.approx([value / norm for value in values], rel=1e-12)
    made = ops.powm_eigh(torch.diag_embed(VALUES), alpha, normalization=normalization)
    np.testing.assert_allclose(matrix_eigenvalues(made), found, atol=1e-12)


@pytest.mark.parametrize("iterations", [1, 3, 5, 12])
@pytest.mark.parametrize("prenorm", ["trace", "frobenius"])
@pytest.mark.parametrize("postcomp", [True, False])
def test_newton_schulz(iterations: int, prenorm: str, postcomp: bool) -> None:
    options = {"iterations": iterations, "prenorm": prenorm, "postcomp": postcomp}
    found = newton_schulz(VALUES, **options)
    for row, line in zip(VALUES.tolist(), found.tolist(), strict=True):
        t = sum(row) if prenorm == "trace" else math.hypot(*row)
        for value, result in zip(row, line, strict=True):
            y, p = value / t, 1.0
            for _ in range(iterations):
                half = (3 - p * y) / 2
                y, p = y * half, half * p
            assert result == pytest.approx(y * math.sqrt(t) if postcomp else y, rel=1e-10)
    made = ops.sqrtm_newton_schulz(torch.diag_embed(VALUES), **options)
    np.testing.assert_allclose(matrix_eigenvalues(made), found, atol=1e-12)


def test_newton_schulz_approaches_the_root_from_below() -> None:
    points = torch.linspace(0, 2, 50, dtype=torch.float64)
    t = torch.tensor(2.0, dtype=torch.float64)
    curves = [newton_schulz(points, iterations=n, t=t) for n in (1, 3, 5, 20)]
    for lower, upper in zip(curves, [*curves[1:], points.sqrt()], strict=True):
        assert (lower <= upper + 1e-12).all()
    assert torch.allclose(curves[-1], points.sqrt(), atol=1e-3)


def test_zero_spectra_stay_zero() -> None:
    zero = torch.zeros(2, 3)
    for found in (
        power(zero),
        power(zero, normalization="spectral"),
        power(zero, normalization="frobenius"),
        newton_schulz(zero),
        newton_schulz(zero, prenorm="frobenius", postcomp=False),
    ):
        assert found.eq(0).all()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_m_fro_does_not_overflow(scale: float) -> None:
    assert torch.allclose(
        power(VALUES.float() * scale, 1.0, normalization="frobenius"),
        power(VALUES, 1.0, normalization="frobenius").float(),
    )


def test_logarithm() -> None:
    assert logarithm(VALUES, eps=0.5).tolist()[0] == pytest.approx([math.log(v + 0.5) for v in (9, 4, 0.25, 0)])


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="normalization"):
        power(VALUES, normalization="euclidean")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="iterations"):
        newton_schulz(VALUES, iterations=0)
    with pytest.raises(TypeError, match="floating"):
        logarithm(torch.tensor([1]))
