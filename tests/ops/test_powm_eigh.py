"""covpool.ops.powm_eigh: the value. Its derivatives are tested in test_powm_eigh_gradient.py."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cases import CHANNELS, features, hard_matrices, spd
from covpool.ops import covariance, powm_eigh
from ops import reference
from ops.oracles import randn, refuses, relative_error, rotation

ALPHAS = (0.3, 0.5, 0.7, 1.0, 1.3, 2.0)
A = hard_matrices()["distinct"]

every_alpha = pytest.mark.parametrize("alpha", ALPHAS)
every_matrix = pytest.mark.parametrize("name", hard_matrices())


@every_alpha
@every_matrix
def test_equals_the_reference_on_hard_spectra(name: str, alpha: float) -> None:
    a = hard_matrices()[name]
    assert relative_error(powm_eigh(a, alpha), reference.power(a, alpha)) <= 1e-12


@every_alpha
@pytest.mark.parametrize("c", CHANNELS)
def test_equals_scipys_fractional_power(c: int, alpha: float) -> None:
    m = randn(c, c)
    a = m @ m.T / c + 0.1 * torch.eye(c, dtype=torch.float64)
    expected = torch.from_numpy(scipy.linalg.fractional_matrix_power(a.numpy(), alpha))
    assert relative_error(powm_eigh(a, alpha), expected) <= 1e-11


def test_power_one_is_the_matrix_itself() -> None:
    torch.testing.assert_close(powm_eigh(A, 1.0), A)


def test_roots_multiply_back() -> None:
    root, third = powm_eigh(A, 0.5), powm_eigh(A, 1 / 3)
    torch.testing.assert_close(root @ root, A)
    torch.testing.assert_close(third @ third @ third, A)


@every_alpha
def test_diagonal(alpha: float) -> None:
    values = torch.tensor([4.0, 0.3, 0.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(powm_eigh(torch.diag(values), alpha), torch.diag(values**alpha))


@every_alpha
def test_equivariance(alpha: float) -> None:
    q = rotation(6)
    torch.testing.assert_close(powm_eigh(q @ A @ q.T, alpha), q @ powm_eigh(A, alpha) @ q.T)


@settings(max_examples=15, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(0.1, 2.0))
def test_homogeneity(scale: float, alpha: float) -> None:
    assert relative_error(powm_eigh(scale * A, alpha), scale**alpha * powm_eigh(A, alpha)) <= 1e-11


@every_alpha
def test_rank_one(alpha: float) -> None:
    """(v v^T)^alpha = |v|^(2 alpha - 2) v v^T."""
    v = randn(6)
    a = torch.outer(v, v)
    assert relative_error(powm_eigh(a, alpha), v.norm() ** (2 * alpha - 2) * a) <= 1e-12


def test_square_root_minimises_the_von_neumann_likelihood() -> None:
    """log|P| + tr(P^-1 S) + tr(P - log P - I) has its minimum 2 tr(S^(1/2)) - d at P = S^(1/2)."""

    def objective(p: Tensor) -> float:
        p_inverse, log_p = torch.linalg.inv(p), torch.from_numpy(scipy.linalg.logm(p.numpy()).real)
        return float(torch.logdet(p) + (p_inverse @ A).trace() + (p - log_p).trace() - len(p))

    root = powm_eigh(A, 0.5)
    least = objective(root)
    assert least == pytest.approx(2 * float(root.trace()) - len(A), abs=1e-10)
    for seed in range(5):
        h = randn(6, 6, seed=seed)
        assert objective(root + 1e-3 * (h + h.T)) > least


def test_power_distance_tends_to_the_log_euclidean_one() -> None:
    b = spd(2.0, 1.7, 0.9, 0.5, 0.3, 0.1, seed=1)
    expected = np.linalg.norm(scipy.linalg.logm(A.numpy()) - scipy.linalg.logm(b.numpy()))
    errors = []
    for alpha in (1e-2, 1e-3, 1e-4):
        distance = float((powm_eigh(A, alpha) - powm_eigh(b, alpha)).norm()) / alpha
        errors.append(abs(distance - expected) / expected)
    assert errors[2] <= 1e-3
    assert errors[2] < errors[1] < errors[0]


# --- which eigenvalues are zero -------------------------------------------------------------------


def kept(a: Tensor, eps: object) -> int:
    """The number of eigenvalues that count as positive: the trace of a power near zero."""
    return round(float(powm_eigh(a, 1e-6, eps=eps).double().trace()))  # type: ignore[arg-type]


def test_rank_threshold_finds_the_rank_in_float32_and_the_papers_does_not() -> None:
    """256 channels, 196 positions of ReLU features: the rank is 195."""
    a = covariance(features(1, 196, 256, dtype=torch.float32).relu())[0]
    assert kept(a, "rank") == 195
    assert torch.equal(powm_eigh(a, 0.5), powm_eigh(a, 0.5, eps="rank"))  # the default
    assert kept(a, "paper") > 195


def test_number_as_threshold_in_the_unit_of_a() -> None:
    a = torch.diag(torch.tensor([3.0, 1.0, 0.5, 0.1], dtype=torch.float64))
    assert [kept(a, eps) for eps in (0.0, 0.1, 0.2, 1.0, 2)] == [4, 3, 3, 1, 1]


def test_paper_threshold_is_the_spacing_at_the_largest_eigenvalue() -> None:
    spacing = float(np.spacing(1.0))
    a = torch.diag(torch.tensor([1.0, 3 * spacing, spacing], dtype=torch.float64))
    assert kept(a, "paper") == 2
    assert kept(a, "rank") == 1


def test_negative_round_off_is_zero() -> None:
    a = torch.diag(torch.tensor([1.0, -1e-17], dtype=torch.float64))
    assert torch.equal(powm_eigh(a, 0.5), torch.diag(torch.tensor([1.0, 0.0], dtype=torch.float64)))


# --- M-l2 and M-Fro -------------------------------------------------------------------------------


@every_alpha
@every_matrix
def test_unit_norms(name: str, alpha: float) -> None:
    a = hard_matrices()[name]
    assert np.linalg.norm(powm_eigh(a, alpha, normalization="spectral"), 2) == pytest.approx(1, abs=1e-12)
    assert np.linalg.norm(powm_eigh(a, alpha, normalization="frobenius")) == pytest.approx(1, abs=1e-12)


@every_alpha
def test_closed_form(alpha: float) -> None:
    power = reference.power(A, alpha)
    spectral = power / np.linalg.norm(power, 2)
    torch.testing.assert_close(powm_eigh(A, alpha, normalization="spectral"), spectral)
    torch.testing.assert_close(powm_eigh(A, alpha, normalization="frobenius"), power / power.norm())


@pytest.mark.parametrize("normalization", ["spectral", "frobenius"])
def test_scale_invariance(normalization: str) -> None:
    z = powm_eigh(A, 0.7, normalization=normalization)  # type: ignore[arg-type]
    torch.testing.assert_close(powm_eigh(123 * A, 0.7, normalization=normalization), z)  # type: ignore[arg-type]


def test_multiple_of_the_identity() -> None:
    eye = torch.eye(5, dtype=torch.float64)
    torch.testing.assert_close(powm_eigh(2.5 * eye, 0.7, normalization="spectral"), eye)
    torch.testing.assert_close(powm_eigh(2.5 * eye, 0.7, normalization="frobenius"), eye / math.sqrt(5))


@pytest.mark.parametrize("normalization", [None, "spectral", "frobenius"])
def test_zero_stays_zero(normalization: str | None) -> None:
    a = torch.zeros(2, 4, 4)
    assert torch.equal(powm_eigh(a, 0.5, normalization=normalization), a)  # type: ignore[arg-type]


# --- inputs ---------------------------------------------------------------------------------------


def test_only_the_symmetric_part_counts() -> None:
    skew = randn(6, 6).triu(1)
    torch.testing.assert_close(powm_eigh(A + skew - skew.T, 0.5), powm_eigh(A, 0.5))


def test_alpha_as_a_tensor() -> None:
    for alpha in (torch.tensor(0.7), torch.tensor([0.7], dtype=torch.float64), torch.nn.Parameter(torch.tensor(0.7))):
        assert relative_error(powm_eigh(A, alpha), powm_eigh(A, alpha.item())) <= 1e-14


def test_refusals_name_what_came() -> None:
    with refuses(ValueError, "`a`", "(..., c, c)", "(2, 3)"):
        powm_eigh(torch.ones(2, 3), 0.5)
    with refuses(TypeError, "`a`", "list"):
        powm_eigh([[1.0]], 0.5)  # type: ignore[arg-type]
    for alpha in (0, -0.5, 2.5, math.nan):
        with refuses(ValueError, "`alpha`", "(0, 2]", str(alpha)):
            powm_eigh(A, alpha)
    with refuses(ValueError, "`alpha`", "one number", "(2,)"):
        powm_eigh(A, torch.ones(2))
    with refuses(ValueError, "`eps`", "'rank'", "'ranks'", "did you mean 'rank'"):
        powm_eigh(A, 0.5, eps="ranks")  # type: ignore[arg-type]
    for eps in (-1e-9, math.nan):
        with refuses(ValueError, "`eps` must not be negative", str(eps)):
            powm_eigh(A, 0.5, eps=eps)
    with refuses(ValueError, "`normalization`", "'fro'"):
        powm_eigh(A, 0.5, normalization="fro")  # type: ignore[arg-type]
    with refuses(ValueError, "`null_gradient`", "'relased'", "did you mean 'released'"):
        powm_eigh(A, 0.5, null_gradient="relased")  # type: ignore[arg-type]
