"""The captured step: when it is captured, what a fallback says, and that capturing changes nothing.

Here a function that runs the work stands for a CUDA graph; test_on_gpu.py compares real graphs with ordinary steps.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from covpool.engine._graphs import Body, CannotCaptureError
from covpool.engine.training import _captured_step, _loop, _stage
from covpool.engine.training._loop import train
from covpool.engine.training._optimizer import can_be_captured, prepare_capture, set_lr
from covpool.recipe._schema import Recipe, Stage
from engine.training.test_resume import assert_same_end, train_until
from tiny import make_tree, tiny_recipe

STEPS = 8  # of a tiny training


class FakeGraphs:
    """Captures without computing, and counts replays."""

    waits: Sequence[str] = ()
    error = ""
    replays = 0

    def __init__(self, device: torch.device) -> None:
        pass

    def warming_up(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def synchronizations(self) -> Iterator[list[str]]:
        yield list(self.waits)

    def capture(self, bodies: Sequence[Body]) -> list[Body]:
        if self.error:
            raise CannotCaptureError(self.error)
        return [self._counted(body) for body in bodies]

    def _counted(self, body: Body) -> Body:
        def replay() -> None:
            type(self).replays += 1
            body()

        return replay


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """Clipping, averaged weights, accumulation and mixing."""
    return tiny_recipe(
        make_tree(tmp_path_factory.mktemp("images") / "tree"),
        train={"ema": 0.9, "clip_norm": 1.0, "accumulate": 3, "channels_last": True},
        augment={"mixup": 0.2},
    )


@pytest.fixture(scope="module")
def eager(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("eager") / "run"
    train(recipe.changed(train={"graph": False}), run)
    return run


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> type[FakeGraphs]:
    """A CPU that captures, with the ordinary optimizer, whose fused form rounds differently."""
    fake = type("FakeGraphs", (FakeGraphs,), {})
    monkeypatch.setattr(_stage, "Graphs", fake)
    for module in (_loop, _stage):
        monkeypatch.setattr(module, "why_not_captured", lambda *about: "")
    monkeypatch.setattr(_stage, "prepare_capture", lambda optimizer: None)
    return fake


def test_captured_steps_end_like_ordinary_ones(
    recipe: Recipe, eager: Path, tmp_path: Path, graphs: type[FakeGraphs]
) -> None:
    train(recipe, tmp_path / "run")
    assert graphs.replays == (STEPS - _captured_step.WARM_UP) * (3 + 1)
    assert_same_end(eager, tmp_path / "run")


def test_a_resumed_run_captures_again(recipe: Recipe, eager: Path, tmp_path: Path, graphs: type[FakeGraphs]) -> None:
    train_until(recipe, tmp_path / "run", event="tick", step=6)
    assert_same_end(eager, tmp_path / "run")


def test_every_stage_captures_its_own_step(recipe: Recipe, tmp_path: Path, graphs: type[FakeGraphs]) -> None:
    stages = (Stage(epochs=1, freeze=("features",)), Stage(epochs=1, freeze=(), batch_size=6))
    staged = recipe.changed(stages=stages)
    train(staged, tmp_path / "captured")
    assert graphs.replays == (4 - _captured_step.WARM_UP + 8 - _captured_step.WARM_UP) * (3 + 1)
    train(staged.changed(train={"graph": False}), tmp_path / "eager")
    assert_same_end(tmp_path / "eager", tmp_path / "captured")


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ({"waits": ["backbone.py:7"]}, "the host waits for the device at backbone.py:7"),
        ({"error": "it draws random numbers on the host"}, "it draws random numbers on the host"),
    ],
)
def test_a_step_that_cannot_be_captured_goes_on_as_it_is(
    recipe: Recipe,
    eager: Path,
    tmp_path: Path,
    graphs: type[FakeGraphs],
    problem: dict[str, Any],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in problem.items():
        setattr(graphs, name, value)
    with caplog.at_level(logging.WARNING, logger="covpool"):
        train(recipe, tmp_path / "run")
    assert [record.getMessage() for record in caplog.records if "CUDA graph" in record.getMessage()] == [
        f"the training step is not captured as a CUDA graph, which would be faster: {said}"
    ]
    assert_same_end(eager, tmp_path / "run")
    with pytest.raises(ValueError, match=rf"`train.graph` = true, but the step cannot be captured \({said}"):
        train(recipe.changed(train={"graph": True}), tmp_path / "required")


def test_a_graph_is_refused_on_a_cpu_before_anything_is_written(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"this training runs on cpu\): set train.graph=auto"):
        train(recipe.changed(train={"graph": True}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_which_optimizers_can_be_captured() -> None:
    parameters = list(nn.Linear(2, 2).parameters())
    assert can_be_captured(torch.optim.SGD(parameters, lr=1.0))
    assert can_be_captured(torch.optim.Adam(parameters))
    assert not can_be_captured(torch.optim.SGD(parameters, lr=1.0, foreach=True))
    assert not can_be_captured(torch.optim.LBFGS(parameters))

    class Own(torch.optim.SGD):
        """May do anything."""

    assert not can_be_captured(Own(parameters, lr=1.0))


def test_a_prepared_optimizer_takes_the_same_steps() -> None:
    """The learning rate is a tensor that keeps its place in memory."""
    ends = []
    for is_prepared in (False, True):
        torch.manual_seed(0)
        layer = nn.Linear(3, 2)
        groups = [{"params": [p], "initial_lr": 0.1} for p in layer.parameters()]
        optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)
        if is_prepared:
            prepare_capture(optimizer)
        rates = [group["lr"] for group in optimizer.param_groups]
        for step in range(3):
            set_lr(optimizer, 0.5**step)
            layer(torch.ones(4, 3)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        ends.append(layer.weight.detach())
        assert not is_prepared or all(a is g["lr"] for a, g in zip(rates, optimizer.param_groups, strict=True))
    assert torch.allclose(*ends, rtol=1e-5)
