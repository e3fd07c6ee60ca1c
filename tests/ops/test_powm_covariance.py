"""covpool.ops.powm_covariance: the value and the derivatives of powm_eigh(covariance(x)), computed another way."""

from typing import Any

import pytest
import torch
from torch import Tensor

from cases import CHANNELS, features, hard_features
from covpool.ops import covariance, powm_covariance, powm_eigh
from covpool.ops.powm_covariance import choose_power_form
from ops import reference
from ops.oracles import assert_gradient, finite_difference, randn, refuses, relative_error, value_and_gradient

ALPHAS = (0.3, 0.5, 0.7, 1.0, 1.3, 2.0)
NORMALIZATIONS = (None, "spectral", "frobenius")
POSITIONS = (2, 5, 8, 9, 20)  # for 8 channels: rank-deficient, n = c, n > c

every_alpha = pytest.mark.parametrize("alpha", ALPHAS)
every_normalization = pytest.mark.parametrize("normalization", NORMALIZATIONS)
every_null_gradient = pytest.mark.parametrize("null_gradient", ["exact", "released"])


def weights_of(kind: str, n: int) -> dict[str, Tensor]:
    """Weights or a mask of 2 items with n positions."""
    mask = torch.ones(2, n, dtype=torch.bool)
    mask[1, 1:] = False
    weights = randn(2, n, seed=5).abs()
    weights[0, 0] = 0
    return {"none": {}, "mask": {"mask": mask}, "weights": {"weights": weights}}.get(
        kind, {"mask": mask, "weights": weights}
    )


def dual(alpha: float | Tensor = 0.5, **options: Any):  # type: ignore[no-untyped-def]
    return lambda x: powm_covariance(x, alpha, form="dual", **options)


def primal(alpha: float | Tensor = 0.5, **options: Any):  # type: ignore[no-untyped-def]
    return lambda x: powm_covariance(x, alpha, form="primal", **options)


# --- equal in every form --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "alpha", "normalization", "null_gradient"),
    [
        (n, alpha, NORMALIZATIONS[(i + j + k) % 3], null_gradient)
        for i, n in enumerate(POSITIONS)
        for j, alpha in enumerate(ALPHAS)
        for k, null_gradient in enumerate(("exact", "released"))
    ],
)
def test_value_and_gradients_are_those_of_the_power_of_the_covariance(
    n: int, alpha: float, normalization: str | None, null_gradient: str
) -> None:
    options: dict[str, Any] = {"normalization": normalization, "null_gradient": null_gradient}
    exponent = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    x, g = features(2, n, 8).requires_grad_(), randn(2, 8, 8, seed=3)
    expected = powm_eigh(covariance(x), exponent, **options)
    gradients = torch.autograd.grad(expected, (x, exponent), g)
    for form in ("primal", "dual", "auto"):
        z = powm_covariance(x, exponent, form=form, **options)
        dx, dalpha = torch.autograd.grad(z, (x, exponent), g)
        assert relative_error(z, expected) <= 1e-12
        torch.testing.assert_close(dx, gradients[0], rtol=1e-10, atol=1e-12)
        assert float(dalpha) == pytest.approx(float(gradients[1]), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("kind", ["none", "mask", "weights", "both"])
@pytest.mark.parametrize("n", POSITIONS)
@every_normalization
def test_masks_and_weights(n: int, kind: str, normalization: str | None) -> None:
    options: dict[str, Any] = {**weights_of(kind, n), "normalization": normalization}
    x = features(2, n, 8)
    z, dx = value_and_gradient(dual(0.7, **options), x)
    expected, expected_dx = value_and_gradient(primal(0.7, **options), x)
    assert relative_error(z, expected) <= 1e-12
    assert relative_error(dx, expected_dx) <= 1e-10


def test_what_stands_at_a_masked_position_has_no_influence() -> None:
    x, mask = features(2, 6, 8), weights_of("mask", 6)["mask"]
    faulty = torch.where(mask.unsqueeze(-1), x, torch.nan)
    assert torch.equal(dual(mask=mask)(faulty), dual(mask=mask)(x))


@pytest.mark.parametrize("c", CHANNELS)
@every_alpha
def test_equals_the_reference(c: int, alpha: float) -> None:
    x = features(2, 9, c)
    slow = torch.stack([reference.power(reference.covariance(item), alpha) for item in x])
    assert relative_error(powm_covariance(x, alpha), slow) <= 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("case", "alpha", "normalization"),
    [
        (case, alpha, NORMALIZATIONS[(i + j) % 3])
        for i, case in enumerate(hard_features())
        for j, alpha in enumerate((0.3, 0.5, 1.7))
    ],
)
def test_hard_features(case: str, alpha: float, normalization: str | None, dtype: torch.dtype) -> None:
    """Finite, and the value of the primal form in float64."""
    x = hard_features(dtype=dtype)[case]
    z, dx = value_and_gradient(dual(alpha, normalization=normalization), x)
    assert z.isfinite().all() and dx.isfinite().all()
    if case != "all_constant" or dtype == torch.float64:  # in float32 only round-off is left, which has no exact value
        tolerance = 1e-10 if dtype == torch.float64 else 2e-5
        assert relative_error(z, primal(alpha, normalization=normalization)(x.double())) <= tolerance


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("eps", ["rank", "paper", "number"])
def test_null_eigenvalues_are_counted_in_the_unit_of_the_covariance(eps: Any, scale: float) -> None:
    x = scale * features(2, 6, 8)
    if eps == "number":
        eps = float(torch.linalg.eigvalsh(covariance(x))[:, -3].mean())  # cuts through the spectrum
        assert relative_error(dual(eps=eps)(x), dual()(x)) >= 0.1
    assert relative_error(dual(eps=eps)(x), primal(eps=eps)(x)) <= 1e-7


def test_threshold_zero_keeps_no_more_than_round_off() -> None:
    x = features(2, 6, 8)
    z, dx = value_and_gradient(dual(eps=0.0), x)
    expected, expected_dx = value_and_gradient(dual(), x)
    assert relative_error(z, expected) <= 1e-7
    assert relative_error(dx, expected_dx) <= 1e-6


def test_float32_is_as_accurate_as_the_primal_form() -> None:
    x = features(2, 49, 130, dtype=torch.float32).relu()
    for alpha in (0.3, 0.5, 0.7):
        truth = value_and_gradient(primal(alpha), x.double())
        errors = [
            [relative_error(ours, exact) for ours, exact in zip(value_and_gradient(way(alpha), x), truth, strict=True)]
            for way in (dual, primal)
        ]
        assert errors[0][0] <= max(1e-6, 2 * errors[1][0])
        assert errors[0][1] <= max(1e-6, 2 * errors[1][1])


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "alpha", "normalization"),
    [(n, alpha, NORMALIZATIONS[(i + j) % 3]) for i, n in enumerate(POSITIONS) for j, alpha in enumerate(ALPHAS)],
)
def test_gradient_through_the_features(n: int, alpha: float, normalization: str | None) -> None:
    assert_gradient(dual(alpha, normalization=normalization), features(1, n, 8))


@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.3])
def test_gradcheck_in_features_and_alpha(alpha: float) -> None:
    x = features(1, 3, 5).requires_grad_()
    exponent = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, a: powm_covariance(x, a, form="dual"), (x, exponent), check_forward_ad=True, atol=1e-6
    )


def test_released_gradient_is_another_one_for_few_positions_only() -> None:
    for n, same in ((5, False), (20, True)):
        x = features(1, n, 8)
        exact, released = (value_and_gradient(dual(null_gradient=mode), x)[1] for mode in ("exact", "released"))
        assert (relative_error(released, exact) <= 1e-12) == same


@every_null_gradient
def test_forward_derivative(null_gradient: str) -> None:
    x, dx = features(2, 5, 8), features(2, 5, 8, seed=1)
    _, dz = torch.func.jvp(dual(0.7, null_gradient=null_gradient), (x,), (dx,))
    _, expected = torch.func.jvp(primal(0.7, null_gradient=null_gradient), (x,), (dx,))
    assert relative_error(dz, expected) <= 1e-10
    if null_gradient == "exact":
        assert relative_error(dz, finite_difference(dual(0.7), x, dx)) <= 1e-7


def test_gradient_in_positive_weights() -> None:
    x, weights = features(2, 5, 8), randn(2, 5, seed=5).abs() + 0.1
    for form in ("auto", "primal", "dual"):
        assert_gradient(lambda w, form=form: powm_covariance(x, 0.5, weights=w, form=form), weights)


def test_gradient_in_a_zero_weight_is_finite() -> None:
    weights = weights_of("weights", 5)["weights"].requires_grad_()
    powm_covariance(features(2, 5, 8), 0.5, weights=weights).sum().backward()
    assert weights.grad is not None and weights.grad.isfinite().all()


# --- choice, transforms, refusals -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "c", "weight_gradient", "exporting", "form"),
    [
        (5, 8, False, False, "dual"),
        (8, 8, False, False, "dual"),
        (9, 8, False, False, "primal"),
        (5, 8, True, False, "primal"),
        (5, 8, False, True, "primal"),
    ],
)
def test_choice_of_the_form(n: int, c: int, weight_gradient: bool, exporting: bool, form: str) -> None:
    assert choose_power_form(n, c, weight_gradient, exporting) == form


def test_compiles_without_graph_breaks_with_a_learnable_alpha() -> None:
    """The dual form; the primal form is compiled with `powm_eigh`."""
    torch.compiler.reset()
    x, alpha = features(2, 3, 6), torch.tensor(0.6, dtype=torch.float64, requires_grad=True)

    def gradient(f: Any) -> Tensor:
        (dalpha,) = torch.autograd.grad(f(x, alpha).square().sum(), alpha)
        return dalpha

    compiled = torch.compile(powm_covariance, fullgraph=True, backend="aot_eager")
    assert float(gradient(compiled)) == pytest.approx(float(gradient(powm_covariance)), rel=1e-10)


def test_vmap_with_masks() -> None:
    x, mask = features(2, 5, 8), weights_of("mask", 5)["mask"]
    mapped = torch.vmap(lambda x, mask: powm_covariance(x, 0.5, mask=mask))(x, mask)
    assert relative_error(mapped, powm_covariance(x, 0.5, mask=mask)) <= 1e-12


def test_exports_with_free_sizes() -> None:
    """One graph for fewer and for more positions than channels."""

    class Power(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return powm_covariance(x, 0.5)

    free = {0: torch.export.Dim("b"), 1: torch.export.Dim("n")}
    program = torch.export.export(Power(), (features(3, 5, 8),), dynamic_shapes=(free,))
    for n in (3, 20):
        x = features(2, n, 8)
        assert relative_error(program.module()(x), powm_covariance(x, 0.5)) <= 1e-12


@pytest.mark.parametrize("n", [3, 4, 5])
def test_second_derivatives_of_the_dual_form_up_to_one_position_more_than_channels(n: int) -> None:
    """Centred features of n <= c + 1 positions can have rank n - 1."""
    assert torch.autograd.gradgradcheck(dual(0.7), features(1, n, 4).requires_grad_(), fast_mode=True)


def test_refusals_name_what_came() -> None:
    x = features(2, 5, 8)
    with refuses(ValueError, "`x`", "(..., n, c)", "(8,)"):
        powm_covariance(torch.ones(8), 0.5)
    for form in ("primal", "dual"):
        with refuses(ValueError, "`alpha`", "(0, 2]", "2.5"):
            powm_covariance(x, 2.5, form=form)
    with refuses(ValueError, "`form`", "'duel'", "did you mean 'dual'"):
        powm_covariance(x, 0.5, form="duel")  # type: ignore[arg-type]
    with refuses(ValueError, "`eps`", "'ranks'"):
        powm_covariance(x, 0.5, eps="ranks")  # type: ignore[arg-type]
