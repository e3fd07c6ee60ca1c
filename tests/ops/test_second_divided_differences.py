"""covpool.ops._second_divided_differences in decimals, and the second derivatives of operations by gradgradcheck."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from itertools import product

import pytest
import torch
from torch import Tensor

from cases import features, hard_matrices
from covpool.ops import _second_divided_differences as second
from covpool.ops import covariance, gaussian_embedding, logm_eigh, powm_covariance, powm_eigh, vn_mle_eigh
from ops.oracles import randn, refuses, relative_error

VALUES = (3e-7, 0.2, 0.2 + 1e-12, 0.2 + 1e-6, 0.2005, 0.21, 0.7, 0.7, 1.0, 1e4)
EPS = {torch.float32: 1.2e-7, torch.float64: 2.3e-16}


def exact(values: Tensor, f: Callable[[Decimal], Decimal]) -> Tensor:  # (c,) -> (c, c, c)
    """Quotients of quotients over values moved apart by 1e-30 of themselves, in 100 digits."""
    with localcontext() as context:
        context.prec = 100
        moved = [[Decimal(v) * (1 + k * Decimal(10) ** -30) for v in values.double().tolist()] for k in range(3)]
        images = [[f(l) for l in own] for own in moved]  # noqa: E741
        entries = []
        for i, j, k in product(range(len(values)), repeat=3):
            (x, y, z), (fx, fy, fz) = ((rows[0][i], rows[1][j], rows[2][k]) for rows in (moved, images))
            entries.append(float(((fx - fy) / (x - y) - (fy - fz) / (y - z)) / (x - z)))
    return torch.tensor(entries, dtype=torch.float64).unflatten(0, (len(values),) * 3)


def triples(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return values[:, None, None], values[:, None], values


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("alpha", [-0.5, 0.5, 1.3, None])
def test_every_entry_keeps_four_fifths_of_the_digits(alpha: float | None, dtype: torch.dtype) -> None:
    """alpha None is the logarithm."""
    values = torch.tensor(VALUES, dtype=dtype)
    if alpha is None:
        truth, found = exact(values, lambda l: l.ln()), second.of_log(*triples(values))  # noqa: E741
    else:
        power = torch.tensor(alpha, dtype=dtype)
        a = Decimal(power.item())
        truth, found = exact(values, lambda l: l**a), second.of_power(*triples(values), power)  # noqa: E741
    worst = float(((found.double() - truth).abs() / truth.abs()).max())
    assert worst <= 10 * EPS[dtype] ** 0.8


@pytest.mark.parametrize("scale", [0.2, 1e4])
@pytest.mark.parametrize("alpha", [-0.5, 0.5, 1.3, None])
def test_close_triples_err_by_the_fourth_power_of_their_distance(alpha: float | None, scale: float) -> None:
    """The series takes over below a relative distance of 7.4e-4, where quotients keep twelve digits. None is log."""
    power = None if alpha is None else torch.tensor(alpha, dtype=torch.float64)
    for distance in (1e-4, 4e-4, 7e-4):
        values = scale * torch.tensor([1, 1 + 0.3 * distance, 1 + distance], dtype=torch.float64)
        if power is None:
            truth, found = exact(values, lambda l: l.ln()), second.of_log(*triples(values))  # noqa: E741
        else:
            a = Decimal(power.item())
            truth, found = exact(values, lambda l, a=a: l**a), second.of_power(*triples(values), power)  # noqa: E741
        error = float(((found - truth).abs() / truth.abs()).max())
        assert error <= distance**4 + 10 * EPS[torch.float64]


def test_triples_with_zeros() -> None:
    zero, three = torch.zeros((), dtype=torch.float64), torch.tensor(3.0, dtype=torch.float64)
    for alpha in (0.5, 1.0, 1.5, 2.0):
        power = torch.tensor(alpha, dtype=torch.float64)
        two_zeros = 0 if alpha == 1 else 3.0 ** (alpha - 2)  # for alpha < 1, the finite part
        assert float(second.of_power(zero, three, zero, power)) == pytest.approx(two_zeros)
        assert float(second.of_power(zero, zero, zero, power)) == (alpha == 2)


GAUSSIANS = [(kind, n) for kind in ("sqrt", "log", "lovric") for n in (2, 5)]
OPERATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "powm_covariance": (lambda x: powm_covariance(x, 0.5), features(2, 6, 3)),
    "powm_covariance, n = c": (lambda x: powm_covariance(x, 0.5), features(1, 4, 4)),
    "powm_covariance, n < c": (lambda x: powm_covariance(x, 0.7), features(2, 3, 5)),
    "powm_covariance, n < c, Frobenius": (
        lambda x: powm_covariance(x, 0.5, normalization="frobenius"),
        features(1, 3, 4),
    ),
    "powm_covariance, n < c, primal": (lambda x: powm_covariance(x, 0.7, form="primal"), features(2, 3, 5)),
    "powm_covariance, n < c, primal, Frobenius": (
        lambda x: powm_covariance(x, 0.3, form="primal", normalization="frobenius"),
        features(1, 3, 4),
    ),
    "powm_covariance, masked to n < c": (
        lambda x: powm_covariance(x, 0.5, mask=torch.tensor([[True, False, True, False, True, False]])),
        features(1, 6, 4),
    ),
    "powm_covariance, spectral": (lambda x: powm_covariance(x, 0.7, normalization="spectral"), features(2, 6, 3)),
    "powm_covariance, n < c, spectral": (
        lambda x: powm_covariance(x, 0.5, normalization="spectral"),
        features(1, 3, 4),
    ),
    "powm_eigh of a singular covariance": (lambda x: powm_eigh(covariance(x), 0.5), features(1, 3, 4)),
    "powm_covariance, weights": (
        lambda x: powm_covariance(x, 0.5, weights=torch.tensor([[0.5, 0.2, 0.3]], dtype=torch.float64)),
        features(1, 3, 4),
    ),
    **{
        f"gaussian_embedding, {kind}, n = {n}": (
            lambda x, kind=kind: gaussian_embedding(x, kind=kind, eps=0.1),
            features(1, n, 3),
        )
        for kind, n in GAUSSIANS
    },
}
MATRICES = ("distinct", "repeated", "nearly_repeated", "multiple_of_identity", "order_one")


@pytest.mark.parametrize("name", OPERATIONS)
def test_second_derivatives_of_features(name: str) -> None:
    function, x = OPERATIONS[name]
    x = x.clone().requires_grad_()
    assert torch.autograd.gradgradcheck(function, x, check_fwd_over_rev=True, fast_mode=True)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("function", [lambda a: powm_eigh(a, 0.7), logm_eigh, lambda a: vn_mle_eigh(a, 0.75)])
def test_second_derivatives_on_hard_spectra(function: Callable[[Tensor], Tensor], name: str) -> None:
    a = hard_matrices()[name].requires_grad_()
    assert torch.autograd.gradgradcheck(function, a, check_fwd_over_rev=True, fast_mode=True)


def test_the_hessian_is_symmetric_and_the_same_in_every_mode() -> None:
    x = features(1, 3, 4)[0]
    loss = lambda x: powm_covariance(x, 0.5).square().square().sum()  # noqa: E731
    hessian = torch.func.hessian(loss)(x).flatten(2).flatten(0, 1)
    reverse = torch.func.jacrev(torch.func.jacrev(loss))(x).flatten(2).flatten(0, 1)
    mixed = torch.func.jacrev(torch.func.jacfwd(loss))(x).flatten(2).flatten(0, 1)
    assert relative_error(hessian.T, hessian) <= 1e-10
    assert relative_error(reverse, hessian) <= 1e-10 and relative_error(mixed, hessian) <= 1e-10


def test_weights_of_few_positions() -> None:
    """Weights that require grad take the primal form, whose covariance is singular here."""
    x = features(1, 3, 4).requires_grad_()
    w = torch.tensor([[0.5, 0.2, 0.3]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x, w: powm_covariance(x, 0.5, weights=w), (x, w))


def test_a_repeated_largest_eigenvalue_is_finite() -> None:
    """The norm has no second derivative there; its own part is left out."""
    a = hard_matrices()["multiple_of_identity"].requires_grad_()
    (da,) = torch.autograd.grad(powm_eigh(a, 0.5, normalization="spectral").square().sum(), a, create_graph=True)
    (dda,) = torch.autograd.grad(da.sum(), a)
    assert dda.isfinite().all()


def test_rows_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    a, h = hard_matrices()["distinct"], randn(6, 6)
    function = lambda a: logm_eigh(a).square().sum()  # noqa: E731
    _, whole = torch.func.jvp(torch.func.grad(function), (a,), (h,))
    monkeypatch.setattr("covpool.ops._spectral.LARGEST_CHUNK", 2 * 36)
    _, chunks = torch.func.jvp(torch.func.grad(function), (a,), (h,))
    torch.testing.assert_close(chunks, whole)


def test_extreme_scales_are_finite() -> None:
    for scale in (1e-8, 1e8):
        x = (features(1, 3, 4, dtype=torch.float32) * scale).requires_grad_()
        (dx,) = torch.autograd.grad(powm_covariance(x, 0.5).sum(), x, create_graph=True)
        (ddx,) = torch.autograd.grad(dx.sum(), x)
        assert ddx.isfinite().all()


class TestRefusals:
    """A second derivative that does not exist, or that is not implemented, is an error and never a wrong number."""

    a = hard_matrices()["distinct"]

    def second(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        return torch.func.jvp(torch.func.grad(lambda x: function(x).square().sum()), (x,), (torch.ones_like(x),))[1]

    @pytest.mark.parametrize("x", [features(1, 3, 4), features(1, 9, 4)], ids=["dual", "primal"])
    def test_of_features(self, x: Tensor) -> None:
        with refuses(RuntimeError, "second derivatives"):
            self.second(lambda x: powm_covariance(x, 0.5, null_gradient="released"), x)
        with refuses(RuntimeError, "second derivatives"):
            self.second(lambda alpha: powm_covariance(x, alpha), torch.tensor(0.5, dtype=torch.float64))

    @pytest.mark.parametrize("n", [4, 5, 6])
    def test_the_dual_form_with_many_positions(self, n: int) -> None:
        """The Gram matrix of n > c + 1 positions is singular in directions that a change of the features opens."""
        x = features(1, n, 4)
        function = lambda x: powm_covariance(x, 0.5, form="dual")  # noqa: E731
        if n <= 5:
            assert torch.autograd.gradgradcheck(function, x.requires_grad_(), check_fwd_over_rev=True, fast_mode=True)
            return
        with refuses(RuntimeError, "second derivatives"):
            self.second(function, x)
        (dx,) = torch.autograd.grad(function(x.requires_grad_()).square().sum(), x, create_graph=True)
        with refuses(RuntimeError, "second derivatives"):
            torch.autograd.grad(dx.sum(), x)

    def test_mixed_in_matrix_and_exponent(self) -> None:
        a, alpha = self.a.clone().requires_grad_(), torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
        (da,) = torch.autograd.grad(powm_eigh(a, alpha).sum(), a, create_graph=True)
        with refuses(RuntimeError, "second derivatives in the exponent"):
            torch.autograd.grad(da.sum(), alpha)

    def test_forward_mode_inside_forward_mode(self) -> None:
        loss = lambda x: powm_covariance(x, 0.5).square().sum()  # noqa: E731
        with refuses(RuntimeError, "second derivatives by forward mode", "torch.func.hessian"):
            torch.func.jacfwd(torch.func.jacfwd(loss))(features(1, 3, 4))

    def test_third_derivatives(self) -> None:
        with refuses(RuntimeError, "third ones"):
            self.second(lambda a: torch.func.grad(lambda a: logm_eigh(a).square().sum())(a), self.a)
