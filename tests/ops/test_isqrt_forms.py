"""The parts of each form, against a direct computation."""

import pytest
import torch
from torch.autograd.functional import jacobian

from cases import features
from covpool.ops._isqrt_forms import (
    adjoint,
    decompose,
    gram,
    normalized,
    polynomial,
    scaled,
    scaled_adjoint,
    smaller,
    spectral,
    tangent,
    times_gram,
)
from ops import reference

WEIGHTS = (None, torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.5, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize("w", WEIGHTS)
def test_scaled_features_have_the_covariance_as_their_second_moment(w: torch.Tensor | None) -> None:
    x = features(2, 4, 3)
    k0 = scaled(x, w)
    for i in range(2):
        torch.testing.assert_close(k0[i].T @ k0[i], reference.covariance(x[i], None if w is None else w[i]))


@pytest.mark.parametrize("w", WEIGHTS)
def test_scaled_adjoint(w: torch.Tensor | None) -> None:
    x, g = features(2, 4, 3), features(2, 4, 3, seed=1)
    torch.testing.assert_close((scaled(x, w) * g).sum(), (x * scaled_adjoint(g, w)).sum())


@pytest.mark.parametrize("shape", [(2, 4, 7), (2, 9, 5)])
def test_normalized_has_unit_norm(shape: tuple[int, int, int]) -> None:
    k0 = features(*shape)
    k, t = normalized(k0, "trace")
    torch.testing.assert_close((k * k).sum((1, 2)), torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(k * t.sqrt(), k0)
    k, t = normalized(k0, "frobenius")
    torch.testing.assert_close(torch.linalg.matrix_norm(k.mT @ k), torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(k * t.sqrt(), k0)


@pytest.mark.parametrize("shape", [(2, 4, 7), (2, 9, 5)])
def test_forms_agree_on_scaled_features(shape: tuple[int, int, int]) -> None:
    k, _ = normalized(features(*shape), "trace")
    expected = reference.isqrt_iterated(k.mT @ k, 5, postcomp=False)
    torch.testing.assert_close(polynomial(k, "primal", 5), expected)
    torch.testing.assert_close(polynomial(k, "dual", 5), expected)
    torch.testing.assert_close(
        spectral(*decompose(k), torch.full_like(k[:, :1, :1], 3), smaller(*shape[1:]), 5), 3 * expected
    )
    torch.testing.assert_close(times_gram(k), k @ k.mT @ k)
    assert gram(k, smaller(*shape[1:])).shape[-1] == min(shape[1:])


@pytest.mark.parametrize("form", ["primal", "dual"])
@pytest.mark.parametrize("prenorm", ["trace", "frobenius"])
@pytest.mark.parametrize("postcomp", [True, False])
def test_adjoint_and_tangent_are_those_of_the_printed_iteration(form: str, prenorm: str, postcomp: bool) -> None:
    x, g, dx = features(1, 4, 3), features(1, 3, 3, seed=1), features(1, 4, 3, seed=2)

    def printed(x: torch.Tensor) -> torch.Tensor:
        return reference.isqrt_iterated(reference.covariance(x[0])[None], 3, prenorm, postcomp)

    j = jacobian(printed, x)  # (1, 3, 3, 1, 4, 3)
    torch.testing.assert_close(adjoint(x, None, g, form, 3, prenorm, postcomp), torch.einsum("bij,bijanc->anc", g, j))
    torch.testing.assert_close(tangent(x, None, dx, form, 3, prenorm, postcomp), torch.einsum("bijanc,anc->bij", j, dx))
