import torch

from covpool.ops.l2_normalize import l2_normalize, unit_length
from ops.oracles import randn


def test_unit_length_and_direction() -> None:
    x = randn(3, 4, 5)
    expected = torch.stack([v / v.norm() for v in x.reshape(-1, 5)]).reshape(3, 4, 5)
    torch.testing.assert_close(l2_normalize(x), expected)


def test_short_vectors_shrink_smoothly() -> None:
    """MatConvNet's formula: at the length sqrt(eps) it is 1 / sqrt(2)."""
    x = torch.tensor([1e-6, 1e-9, 0.0], dtype=torch.float64).unsqueeze(-1)
    expected = torch.tensor([0.5**0.5, 1e-3 / (1 + 1e-6) ** 0.5, 0.0], dtype=torch.float64).unsqueeze(-1)
    torch.testing.assert_close(l2_normalize(x), expected)


def test_gradient() -> None:
    assert torch.autograd.gradcheck(l2_normalize, randn(3, 5).requires_grad_())
    zero = torch.zeros(1, 5, requires_grad=True)
    l2_normalize(zero).sum().backward()
    torch.testing.assert_close(zero.grad, torch.full((1, 5), 1e6))


def test_large_and_half_precision() -> None:
    x = 1e8 * randn(3, 5, dtype=torch.float32)
    torch.testing.assert_close(l2_normalize(x).norm(dim=-1), torch.ones(3))
    assert l2_normalize(x.clamp(-6e4, 6e4).half()).dtype == torch.float32


def test_unit_length_at_any_scale() -> None:
    x = randn(2, 6, 4).requires_grad_()
    torch.testing.assert_close(unit_length(x), x / x.norm(dim=-1, keepdim=True))
    assert torch.autograd.gradcheck(unit_length, x)
    tiny = torch.full((3,), 1e-30)
    torch.testing.assert_close(unit_length(tiny), torch.full((3,), 3**-0.5))


def test_unit_length_of_zero_is_zero_with_a_bounded_gradient() -> None:
    zero = torch.zeros(2, 5, requires_grad=True)
    z = unit_length(zero)
    z.sum().backward()
    assert (z == 0).all() and (zero.grad == 1).all()
