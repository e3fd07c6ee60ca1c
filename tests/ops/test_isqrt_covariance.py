"""covpool.ops.isqrt_covariance: three forms of one value. Its derivatives are tested in test_isqrt_functions.py."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cases import CHANNELS, features, hard_features
from covpool.ops import isqrt_covariance
from covpool.ops.isqrt_covariance import IsqrtForm, choose_isqrt_form, smaller
from covpool.ops.sqrtm_newton_schulz import Prenorm
from ops import reference
from ops.oracles import randn, refuses, relative_error, rotation

FORMS = ("primal", "dual", "spectral")
ITERATIONS = (1, 2, 3, 5, 7, 10)

every_form = pytest.mark.parametrize("form", FORMS)
every_prenorm = pytest.mark.parametrize("prenorm", ["trace", "frobenius"])
with_and_without_postcomp = pytest.mark.parametrize("postcomp", [True, False])
fewer_as_many_and_more_positions = pytest.mark.parametrize("n", [3, 8, 25])

MASK = torch.tensor([[True, True, False, True, False, True], [False, True, True, False, False, True]])
WEIGHTS = torch.rand(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1


def exact(x: Tensor, iterations: int, prenorm: str, postcomp: bool, weights: Tensor | None = None) -> Tensor:
    """The exact spectral form, item by item."""
    return torch.stack(
        [
            reference.isqrt_spectral(
                reference.covariance(item, None if weights is None else weights[i]), iterations, prenorm, postcomp
            )
            for i, item in enumerate(x)
        ]
    )


@every_form
@fewer_as_many_and_more_positions
@pytest.mark.parametrize("iterations", ITERATIONS)
@every_prenorm
@with_and_without_postcomp
def test_equals_its_exact_spectral_form(
    form: IsqrtForm, n: int, iterations: int, prenorm: Prenorm, postcomp: bool
) -> None:
    x = features(2, n, 8)
    z = isqrt_covariance(x, iterations=iterations, prenorm=prenorm, postcomp=postcomp, form=form)
    assert relative_error(z, exact(x, iterations, prenorm, postcomp)) <= 1e-12


@fewer_as_many_and_more_positions
@every_prenorm
def test_three_forms_are_equal(n: int, prenorm: Prenorm) -> None:
    x = features(2, n, 8).relu()
    primal, dual, spectral = (isqrt_covariance(x, prenorm=prenorm, form=form) for form in FORMS)
    torch.testing.assert_close(dual, primal, rtol=0, atol=1e-10)
    torch.testing.assert_close(spectral, primal, rtol=0, atol=1e-10)


@every_form
@pytest.mark.parametrize("c", CHANNELS)
def test_every_number_of_channels(form: IsqrtForm, c: int) -> None:
    for n in (1, 2, 49):
        x = features(2, n, c)
        expected = exact(x, 5, "trace", True) if n > 1 else torch.zeros(2, c, c)
        assert relative_error(isqrt_covariance(x, form=form), expected) <= 1e-12


@every_form
def test_equals_the_paper_transcribed(form: IsqrtForm) -> None:
    x = features(2, 30, 8)
    assert relative_error(isqrt_covariance(x, form=form), reference.isqrt_literal(x)) <= 1e-12


@every_form
@every_prenorm
def test_float32_accuracy(form: IsqrtForm, prenorm: Prenorm) -> None:
    """The features have mean 10, which is subtracted before anything is squared."""
    x = features(2, 49, 64, dtype=torch.float32) + 10
    z = isqrt_covariance(x, prenorm=prenorm, form=form)
    assert relative_error(z, exact(x.double(), 5, prenorm, True)) <= 5e-6


@every_form
@pytest.mark.parametrize("n", [49, 200])
def test_float32_error_is_at_most_twice_that_of_plain_torch(form: IsqrtForm, n: int) -> None:
    x = features(4, n, 64, dtype=torch.float32).relu()
    xc = x - x.mean(1, keepdim=True)
    plain = reference.isqrt_iterated(xc.mT @ xc / n, 5)
    truth = exact(x.double(), 5, "trace", True)
    assert relative_error(isqrt_covariance(x, form=form), truth) <= 2 * relative_error(plain, truth)


@every_form
def test_float32_at_a_large_number_of_iterations(form: IsqrtForm) -> None:
    """The spectral form stays accurate; the other forms warn that they lose accuracy."""
    x = features(1, 20, 32, dtype=torch.float32)
    if form == "spectral":
        z = isqrt_covariance(x, iterations=40, form=form)
        assert relative_error(z, exact(x.double(), 40, "trace", True)) <= 1e-3
    else:
        with pytest.warns(UserWarning, match="lose accuracy in float32"):
            isqrt_covariance(x, iterations=40, form=form)


# --- invariants -----------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(st.floats(1e-4, 1e4), st.integers(2, 12), st.sampled_from(FORMS))
def test_homogeneity_and_shift_invariance(scale: float, n: int, form: IsqrtForm) -> None:
    x, shift = features(1, n, 6), randn(1, 1, 6, seed=1)
    z = isqrt_covariance(x, form=form)
    assert relative_error(isqrt_covariance(scale * x + shift, form=form), scale * z) <= 1e-10


@every_form
def test_equivariance(form: IsqrtForm) -> None:
    """f(X Q^T) = Q f(X) Q^T."""
    x, q = features(2, 5, 8), rotation(8)
    torch.testing.assert_close(isqrt_covariance(x @ q.T, form=form), q @ isqrt_covariance(x, form=form) @ q.T)


@every_form
def test_without_postcomp_the_scale_is_ignored(form: IsqrtForm) -> None:
    x = features(2, 9, 6)
    z = isqrt_covariance(x, postcomp=False, form=form)
    torch.testing.assert_close(isqrt_covariance(1000 * x, postcomp=False, form=form), z)
    limit = isqrt_covariance(x, postcomp=False, iterations=40, form=form)
    torch.testing.assert_close((limit @ limit).diagonal(dim1=-2, dim2=-1).sum(-1), torch.ones(2).double())


@every_form
def test_result_is_symmetric_and_positive_semidefinite(form: IsqrtForm) -> None:
    z = isqrt_covariance(features(2, 5, 8), form=form)
    torch.testing.assert_close(z, z.mT, rtol=0, atol=1e-14)
    assert torch.linalg.eigvalsh(z).min() >= -1e-14


# --- masks and weights ----------------------------------------------------------------------------


@every_form
@every_prenorm
def test_mask_equals_slicing(form: IsqrtForm, prenorm: Prenorm) -> None:
    x = features(2, 6, 4)
    z = isqrt_covariance(torch.where(MASK[..., None], x, torch.nan), mask=MASK, prenorm=prenorm, form=form)
    for i in range(2):
        torch.testing.assert_close(z[i], isqrt_covariance(x[i, MASK[i]], prenorm=prenorm, form=form))


@every_form
@every_prenorm
def test_weights_equal_the_reference(form: IsqrtForm, prenorm: Prenorm) -> None:
    x = features(2, 6, 4)
    z = isqrt_covariance(x, weights=WEIGHTS, prenorm=prenorm, form=form)
    assert relative_error(z, exact(x, 5, prenorm, True, WEIGHTS)) <= 1e-12


@every_form
def test_empty_mask_gives_zeros(form: IsqrtForm) -> None:
    mask = MASK.clone()
    mask[1] = False
    assert torch.equal(isqrt_covariance(features(2, 6, 4), mask=mask, form=form)[1], torch.zeros(4, 4).double())


# --- the choice of a form -------------------------------------------------------------------------


def test_choice_of_the_form() -> None:
    assert smaller(49, 256) == "dual"
    assert smaller(256, 256) == smaller(784, 256) == "primal"
    for n in (196, 784):
        assert choose_isqrt_form(n, 256, 5, "cpu", "torch") == "spectral"
    assert choose_isqrt_form(49, 256, 5, "cpu", "torch") == "dual"  # cheaper than eigenvalues
    assert choose_isqrt_form(49, 256, 7, "cpu", "torch") == "spectral"
    assert choose_isqrt_form(196, 32, 5, "cpu", "torch") == "primal"
    assert choose_isqrt_form(4, 4, 30, "cpu", "torch") == "spectral"  # the iteration would lose accuracy
    for backend in ("torch", "triton"):
        assert choose_isqrt_form(49, 256, 5, "cuda", backend) == "dual"
        assert choose_isqrt_form(784, 256, 5, "cuda", backend) == "primal"
    assert choose_isqrt_form(196, 256, 5, "cuda", "torch") == "dual"
    assert choose_isqrt_form(196, 256, 5, "cuda", "triton") == "primal"  # as many tiles either way


def test_vectorize_is_the_upper_triangle() -> None:
    x = features(2, 5, 8)
    for form in FORMS:
        z = isqrt_covariance(x, form=form)
        assert torch.equal(isqrt_covariance(x, form=form, vectorize=True), z[:, *torch.triu_indices(8, 8)])


def test_kernels_are_refused_where_they_do_not_serve() -> None:
    x = features(2, 5, 8)
    with pytest.raises(ValueError, match="backend 'triton' supports float32"):
        isqrt_covariance(x, backend="triton")
    for wrong in ({"backend": "cuda"}, {"precision": "fp8"}):
        with pytest.raises(ValueError, match="must be one of"):
            isqrt_covariance(x, **wrong)


def test_auto_is_the_chosen_form() -> None:
    x = features(2, 5, 8)
    assert torch.equal(isqrt_covariance(x), isqrt_covariance(x, form="dual"))
    assert torch.equal(isqrt_covariance(x, iterations=21), isqrt_covariance(x, iterations=21, form="spectral"))


@every_form
@pytest.mark.parametrize("case", ["zero", "all_constant", "single_position"])
def test_no_variance_gives_zeros(form: IsqrtForm, case: str) -> None:
    z = isqrt_covariance(hard_features(dtype=torch.float64)[case], form=form)
    assert torch.equal(z, torch.zeros_like(z))


def test_refusals_name_what_came() -> None:
    x = features(2, 6, 4)
    with refuses(ValueError, "`x`", "(..., n, c)", "(4,)"):
        isqrt_covariance(torch.ones(4))
    with refuses(ValueError, "`form`", "'dual'", "'duel'", "did you mean 'dual'"):
        isqrt_covariance(x, form="duel")  # type: ignore[arg-type]
    with refuses(ValueError, "`iterations`", "positive integer", "-1"):
        isqrt_covariance(x, iterations=-1)
    with refuses(ValueError, "`prenorm`", "'fro'"):
        isqrt_covariance(x, prenorm="fro")  # type: ignore[arg-type]
    with refuses(ValueError, "`weights`", "(2, 6)", "(6,)"):
        isqrt_covariance(x, weights=WEIGHTS[0])
    with refuses(TypeError, "`mask`", "boolean"):
        isqrt_covariance(x, mask=WEIGHTS)
    for form in ("dual", "spectral"):
        with refuses(ValueError, "`form`", "weights that require grad", repr(form)):
            isqrt_covariance(x, weights=WEIGHTS.clone().requires_grad_(), form=form)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["auto", "primal"])
def test_gradient_in_the_weights(form: IsqrtForm) -> None:
    x = randn(2, 6, 3)
    assert torch.autograd.gradcheck(
        lambda w: isqrt_covariance(x, weights=w, form=form), WEIGHTS.double().clone().requires_grad_()
    )
