"""Folded graphs compute the same with less."""

from collections.abc import Callable

import pytest
import timm.layers
import torch
from torch import Tensor, fx, nn

from covpool.io._fold import fold_batch_norm


def awake(model: nn.Module) -> nn.Module:
    """In eval mode, with batch norms that all do something."""
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            for tensor in (module.running_mean, module.running_var, module.weight, module.bias):
                if tensor is not None:
                    tensor.data = 0.5 + torch.rand(tensor.shape, generator=generator)
    return model.eval()


def folded(model: nn.Module, x: Tensor) -> tuple[fx.GraphModule, int, float]:
    """The folded graph, how many norms went into it, and its largest relative difference from the model."""
    graph_module = torch.export.export(model, (x,), strict=False).module()
    assert isinstance(graph_module, fx.GraphModule)
    count = fold_batch_norm(graph_module)
    with torch.no_grad():
        expected = model(x)
        error = (graph_module(x) - expected).abs().max() / expected.abs().max()
    return graph_module, count, float(error)


def norms_left(graph_module: fx.GraphModule) -> int:
    return sum("batch_norm" in str(node.target) for node in graph_module.graph.nodes if node.op == "call_function")


class Used(nn.Module):
    """The output of a convolution goes to its norm and past it."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.convolution(x)
        return x + self.norm(x)


class Shared(nn.Module):
    """One convolution, two norms."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.first, self.second = nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.convolution(self.first(self.convolution(x)).relu()))


# name -> (network, input, norms that fold, norms that stay)
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int, int]] = {
    "without bias": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)), (2, 3, 9, 9), 1, 0),
    "with bias": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8)), (2, 3, 9, 9), 1, 0),
    "groups": (lambda: nn.Sequential(nn.Conv2d(4, 8, 3, groups=4), nn.BatchNorm2d(8)), (2, 4, 9, 9), 1, 0),
    "padding by name": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding="same"), nn.BatchNorm2d(8)),
        (2, 3, 9, 9),
        1,
        0,
    ),
    "series": (lambda: nn.Sequential(nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8)), (2, 3, 9), 1, 0),
    "video": (lambda: nn.Sequential(nn.Conv3d(3, 8, 3), nn.BatchNorm3d(8)), (2, 3, 5, 5, 5), 1, 0),
    "linear": (lambda: nn.Sequential(nn.Linear(3, 8, bias=False), nn.BatchNorm1d(8)), (4, 3), 1, 0),
    "no affine": (
        lambda: nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8, affine=False), nn.Dropout(), nn.Linear(8, 2)),
        (4, 3),
        1,
        0,
    ),
    "norm and activation in one": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), timm.layers.BatchNormAct2d(8)),
        (2, 3, 9, 9),
        1,
        0,
    ),
    "shared convolution": (Shared, (2, 3, 9, 9), 2, 0),
    "norm first": (lambda: nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 8, 3)), (2, 3, 9, 9), 0, 1),
    "output used twice": (Used, (2, 3, 9, 9), 0, 1),
    "tokens": (lambda: nn.Sequential(nn.Linear(3, 7), nn.BatchNorm1d(7)), (2, 7, 3), 0, 1),
    "no statistics": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, track_running_stats=False)),
        (2, 3, 9, 9),
        0,
        1,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_folds_and_what_stays(case: str) -> None:
    build, shape, folding, staying = CASES[case]
    torch.manual_seed(0)
    graph_module, count, error = folded(awake(build()), torch.randn(shape))
    assert error <= 1e-5
    assert (count, norms_left(graph_module)) == (folding, staying)


def test_nothing_is_left_over() -> None:
    model = awake(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout2d(), nn.Flatten()))
    graph_module, _, _ = folded(model, torch.randn(2, 3, 9, 9))
    assert [name for name, _ in graph_module.named_parameters()] == ["folded_weight_0", "folded_bias_0"]
    assert not list(graph_module.named_buffers())
    assert not any("dropout" in str(node.target) for node in graph_module.graph.nodes)
