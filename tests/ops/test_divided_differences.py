"""covpool.ops._divided_differences against quotients in fifty decimal digits."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from itertools import product

import pytest
import torch
from torch import Tensor

from covpool.ops import _divided_differences

# Distinct, close to within round-off, exactly equal, and spread over 20 orders of magnitude.
VALUES = (1e-12, 3e-7, 0.2, 0.2 + 1e-15, 0.2 + 1e-9, 0.7, 0.7, 1.0, 1e8)
DIGITS = 60
ALPHAS = (0.3, 0.5, 0.7, 1.0, 1.3, 2.0)
EPS = {torch.float32: 1.2e-7, torch.float64: 2.3e-16}


def exact(
    values: Tensor, f: Callable[[Decimal], Decimal], slope: Callable[[Decimal], Decimal]
) -> Tensor:  # (c,) -> (c, c) float64
    with localcontext() as context:
        context.prec = DIGITS
        numbers = [Decimal(value) for value in values.double().tolist()]
        entries = [float((f(l) - f(m)) / (l - m) if l != m else slope(l)) for l, m in product(numbers, numbers)]  # noqa: E741
    return torch.tensor(entries, dtype=torch.float64).unflatten(0, (len(numbers), -1))


def worst(value: Tensor, truth: Tensor) -> float:
    """The largest relative error of an entry."""
    return float(((value.double() - truth).abs() / truth.abs()).max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_of_power_loses_no_digit_in_any_entry(alpha: float, dtype: torch.dtype) -> None:
    values = torch.tensor(VALUES, dtype=dtype)
    power = torch.tensor(alpha, dtype=dtype)
    a = Decimal(power.item())
    truth = exact(values, lambda l: l**a, lambda l: a * l ** (a - 1))  # noqa: E741
    assert worst(_divided_differences.of_power(values, power), truth) <= 100 * EPS[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_of_log_loses_no_digit_in_any_entry(dtype: torch.dtype) -> None:
    values = torch.tensor(VALUES, dtype=dtype)
    truth = exact(values, lambda l: l.ln(), lambda l: 1 / l)  # noqa: E741
    assert worst(_divided_differences.of_log(values), truth) <= 100 * EPS[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("bounds", [(1e-4, 0.7), (0.2, 0.2 + 1e-9), (1e-20, 1e20), (2.0, 3.0)])
def test_of_clip_loses_no_digit_in_any_entry(bounds: tuple[float, float], dtype: torch.dtype) -> None:
    values = torch.tensor(VALUES, dtype=dtype)
    low, high = (Decimal(torch.tensor(bound, dtype=dtype).item()) for bound in bounds)
    truth = exact(values, lambda value: min(max(value, low), high), lambda value: Decimal(low <= value <= high))
    d = _divided_differences.of_clip(values, float(low), float(high))
    assert ((d.double() - truth).abs() <= 4 * EPS[dtype] * truth).all()


@pytest.mark.parametrize("alpha", [0.3, 0.5, 1.0, 1.3])
def test_of_power_with_zeros(alpha: float) -> None:
    """Between l > 0 and zero the entry is l^(alpha - 1). Between two zeros it is 0, or 1 where alpha = 1."""
    d = _divided_differences.of_power(torch.tensor([0.0, 0.0, 3.0], dtype=torch.float64), torch.tensor(alpha))
    edge = 3.0 ** (alpha - 1)
    null = 1.0 if alpha == 1 else 0.0
    expected = torch.tensor([[null, null, edge], [null, null, edge], [edge, edge, alpha * edge]], dtype=torch.float64)
    torch.testing.assert_close(d, expected)


def test_square_root_needs_no_subtraction() -> None:
    """For alpha = 1/2 the entries are 1 / (sqrt(l_i) + sqrt(l_j))."""
    values = torch.tensor(VALUES, dtype=torch.float64)
    roots = values.sqrt()
    d = _divided_differences.of_power(values, torch.tensor(0.5, dtype=torch.float64))
    torch.testing.assert_close(d, 1 / (roots[:, None] + roots), rtol=1e-13, atol=0)


@pytest.mark.parametrize("gamma", [0.3, 0.75, 1.0, 2.0])
def test_of_vn_mle_loses_no_digit_in_any_entry(gamma: float) -> None:
    values, weight = torch.tensor(VALUES, dtype=torch.float64), torch.tensor(gamma, dtype=torch.float64)
    g = Decimal(gamma)
    b = (1 - g) / (2 * g)

    def root(value: Decimal) -> Decimal:
        return (b * b + value / g).sqrt()

    truth = exact(values, lambda value: root(value) - b, lambda value: 1 / (2 * g * root(value)))
    r = torch.tensor([float(root(Decimal(value))) for value in VALUES], dtype=torch.float64)
    assert worst(_divided_differences.of_vn_mle(r, weight), truth) <= 8 * EPS[torch.float64]
    null = _divided_differences.of_vn_mle(torch.zeros(2, dtype=torch.float64), weight)
    assert (null == 0).all()


@pytest.mark.parametrize("iterations", [1, 2, 3, 5, 7, 10])
def test_of_newton_schulz_factor(iterations: int) -> None:
    """p_N by its recursion in decimals; its differences by quotients, the slope by a quotient over 1e-25."""
    values = torch.tensor([0.0, 1e-9, 1e-3, 0.05, 0.05, 0.05 + 1e-12, 0.3, 0.9, 1.0], dtype=torch.float64)

    def factor(a: Decimal) -> Decimal:
        p = Decimal(1)
        for _ in range(iterations):
            p = p * (3 - a * p * p) / 2
        return p

    h = Decimal(10) ** -25
    truth = exact(values, factor, lambda a: (factor(a + h) - factor(a - h)) / (2 * h))
    p, d = _divided_differences.of_newton_schulz_factor(values[None], iterations)
    expected_p = torch.tensor([float(factor(Decimal(a))) for a in values.tolist()], dtype=torch.float64)
    torch.testing.assert_close(p[0], expected_p, rtol=1e-13, atol=0)
    assert float((d[0] - truth).abs().max() / truth.abs().max()) <= 1e-14
    assert torch.equal(d, d.mT)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 3), (0, 3)])
def test_leading_dimensions(shape: tuple[int, ...]) -> None:
    values = torch.linspace(0.1, 2.0, 12, dtype=torch.float64)[: max(1, torch.Size(shape).numel())]
    values = values.expand(shape) if 0 in shape else values.reshape(shape)
    assert _divided_differences.of_power(values, torch.tensor(0.5)).shape == (*shape, 3)
    assert _divided_differences.of_log(values).shape == (*shape, 3)
