import pytest
import torch

from covpool.ops.squared_distances import squared_distances
from ops.oracles import randn


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_equals_the_definition(lead: tuple[int, ...]) -> None:
    x, centers = randn(*lead, 7, 4), randn(5, 4, seed=1)
    expected = ((x.unsqueeze(-2) - centers) ** 2).sum(-1)
    torch.testing.assert_close(squared_distances(x, centers), expected)


def test_gradient_of_both() -> None:
    x, centers = randn(2, 3, 4).requires_grad_(), randn(5, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(squared_distances, (x, centers))
    assert torch.autograd.gradgradcheck(squared_distances, (x, centers))


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_an_offset_that_all_share_costs_no_accuracy(offset: float) -> None:
    x, centers = randn(50, 16, dtype=torch.float32) + offset, randn(8, 16, seed=1, dtype=torch.float32) + offset
    exact = ((x.double().unsqueeze(-2) - centers.double()) ** 2).sum(-1)
    assert (squared_distances(x, centers) - exact).abs().max() < 1e-4  # the offset costs the plain formula 0.6


def test_the_distance_of_a_point_to_itself_is_zero() -> None:
    x = randn(4, 3, dtype=torch.float32) + 100
    assert squared_distances(x, x[1:2])[1] == 0
