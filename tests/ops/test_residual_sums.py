import torch

from covpool.ops.residual_sums import residual_sums
from ops.oracles import randn


def test_equals_the_definition() -> None:
    x, a, centers = randn(2, 7, 4), randn(2, 7, 5, seed=1).softmax(-1), randn(5, 4, seed=2)
    expected = (a.unsqueeze(-1) * (x.unsqueeze(2) - centers)).sum(1)
    torch.testing.assert_close(residual_sums(x, a, centers), expected)


def test_the_residuals_of_all_centers_add_up() -> None:
    x, a, centers = randn(2, 7, 4), randn(2, 7, 5, seed=1).softmax(-1), randn(5, 4, seed=2)
    expected = x.sum(1) - a.sum(1) @ centers
    torch.testing.assert_close(residual_sums(x, a, centers).sum(1), expected)


def test_gradient_of_all() -> None:
    x, a, centers = randn(2, 3, 4), randn(2, 3, 5, seed=1), randn(5, 4, seed=2)
    assert torch.autograd.gradcheck(residual_sums, tuple(t.requires_grad_() for t in (x, a, centers)))


def test_an_offset_that_all_share_costs_no_accuracy() -> None:
    x, centers = randn(2, 50, 16, dtype=torch.float32) + 1e3, randn(8, 16, seed=2, dtype=torch.float32) + 1e3
    a = randn(2, 50, 8, seed=1, dtype=torch.float32).softmax(-1)
    exact = (a.double().unsqueeze(-1) * (x.double().unsqueeze(2) - centers.double())).sum(1)
    assert (residual_sums(x, a, centers) - exact).abs().max() < 1e-5
