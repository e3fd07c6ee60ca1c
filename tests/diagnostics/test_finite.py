import pytest
import torch
from torch import Tensor, nn

import covpool
from covpool.diagnostics import NonFiniteError, check_finite


class Root(nn.Module):
    """sqrt(|x|), which has an infinite slope at zero."""

    def forward(self, x: Tensor) -> Tensor:
        return x.abs().sqrt()


class Scaled(nn.Module):
    """x |s|^(1/2) at s = 0, where only the gradient of the parameter is infinite."""

    def __init__(self) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.s.abs().sqrt()


class Sum(nn.Module):
    """Two branches use the same tensor."""

    def __init__(self, left: nn.Module, right: nn.Module) -> None:
        super().__init__()
        self.left, self.right = left, right

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) + self.right(x)


def model(middle: nn.Module) -> nn.Module:
    body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), middle, nn.Linear(4, 4))
    return nn.Sequential(body, nn.Linear(4, 2))


class Logarithm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x).log()


def test_names_the_module_whose_output_is_not_finite() -> None:
    net = model(Logarithm())
    message = r"in the output of 0\.2 \(Logarithm\): 12 of 12.*\(3, 4\)"
    with check_finite(net), pytest.raises(NonFiniteError, match=message) as caught:
        net(torch.randn(3, 4))
    assert (caught.value.module, caught.value.where) == ("0.2", "output")


def test_names_the_model_itself_when_its_input_is_not_finite() -> None:
    net, x = model(nn.Identity()), torch.randn(3, 4)
    x[1, 2] = torch.inf
    with (
        check_finite(net),
        pytest.raises(NonFiniteError, match=r"in the input of the model itself.*: 1 of 12") as caught,
    ):
        net(x)
    assert (caught.value.module, caught.value.where) == ("", "input")


def test_sees_inside_lists_and_keyword_arguments() -> None:
    pool = covpool.create_pool("avg", 4)
    with check_finite(pool), pytest.raises(NonFiniteError) as caught:
        pool(torch.zeros(1, 4, 2, 2), weights=torch.full((1, 4), torch.nan))
    assert caught.value.where == "input"


def test_names_the_module_whose_gradient_is_not_finite() -> None:
    net = model(Root())
    net[0][0].bias.data.fill_(-1)  # the ReLU before the root gives zero
    with check_finite(net):
        z = net(torch.zeros(3, 4))
        with pytest.raises(NonFiniteError) as caught:
            z.sum().backward()
    assert (caught.value.module, caught.value.where) == ("0.2", "gradient")


def test_names_the_branch_and_not_the_other_user_of_its_input() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Sum(nn.Linear(4, 4), Root()))
    net[0].weight.data.zero_()
    net[0].bias.data.zero_()
    with check_finite(net):
        z = net(torch.randn(3, 4))
        with pytest.raises(NonFiniteError) as caught:
            z.sum().backward()
    assert (caught.value.module, caught.value.where) == ("2.right", "gradient")


def test_names_the_parameter_whose_gradient_is_not_finite() -> None:
    net = model(Scaled())
    with check_finite(net):
        z = net(torch.randn(3, 4))
        with pytest.raises(NonFiniteError, match=r"in the gradient of s of 0\.2 \(Scaled\)"):
            z.sum().backward()


def test_changes_neither_values_nor_gradients() -> None:
    net, x = model(nn.Tanh()), torch.randn(3, 4)

    def gradients() -> list[Tensor]:
        z = net(x)
        return [z, *torch.autograd.grad(z.square().sum(), list(net.parameters()))]

    expected = gradients()
    with check_finite(net):
        watched = gradients()
    for ours, theirs in zip(watched, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("fails", [False, True])
def test_leaves_no_hook_behind(fails: bool) -> None:
    net, x = nn.Sequential(nn.Linear(4, 4, bias=False), Logarithm() if fails else Root()), torch.zeros(3, 4)
    try:
        with check_finite(net):
            z = net(x)
    except NonFiniteError:
        assert fails
        z = net(x)
    for module in net.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks and not module._backward_hooks
    z.sum().backward()  # the checks are off, also for the graph that was recorded with them
    assert not net[0].weight.grad.isfinite().all()


def test_works_without_gradients_and_on_every_pool() -> None:
    for name in covpool.list_pools():
        pool, x = covpool.create_pool(name, 8, reduce_to=4), torch.randn(2, 8, 3, 3, requires_grad=True)
        with check_finite(pool):
            pool(x).sum().backward()
            with torch.no_grad():
                pool(x, mask=torch.ones(2, 3, 3, dtype=torch.bool))
