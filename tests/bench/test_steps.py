"""Training steps and the parts of a head."""

import pytest
import torch
from torch import nn

import covpool
from covpool.bench import measure_model
from covpool.bench._steps import TrainingStep, head_parts, parse_head, training_steps

CPU = torch.device("cpu")
HEADS = ("avg", "isqrt")


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)  # compiling takes a minute


def test_several_batch_sizes_give_a_curve_of_eager_steps() -> None:
    records = list(measure_model("test_resnet", CPU, 0.0, batches=(2, 3), size=32, heads=HEADS))
    assert [(r.suite, r.name.split()[1], r.shape[0]) for r in records] == [
        ("steps", head, batch) for batch in (2, 3) for head in HEADS
    ]
    assert all(r.extra["images_per_s"] == pytest.approx(1e3 * r.shape[0] / r.median_ms) for r in records)
    assert [r.ratio for r in records if r.name.endswith("avg")] == [1.0, 1.0]


def test_a_single_batch_size_adds_compiled_steps_and_parts() -> None:
    records = list(measure_model("test_resnet", CPU, 0.0, batches=(2,), size=32, heads=HEADS))
    assert [r.suite for r in records[:4]] == ["steps"] * 2 + ["steps, compiled"] * 2
    parts = records[4:]
    assert {r.suite for r in parts} == {"head parts"} and {"reduction", "isqrt pool"} < {r.name for r in parts}
    assert {r.shape for r in parts} == {(2, 96, 2, 2)}, "the maps with the last stride removed"


def test_a_backbone_with_few_channels() -> None:
    names = {r.name for r in head_parts(24, 2, 3, CPU, 0.0)}
    assert {"reduction", "isqrt pool", "classifier"} < names


def test_a_step_is_sgd_with_momentum_on_the_cross_entropy() -> None:
    cpu = torch.device("cpu")
    x, y = torch.randn(4, 3, 32, 32), torch.randint(5, (4,))
    step = TrainingStep("test_resnet", "isqrt", 5, cpu)
    torch.manual_seed(0)
    expected = covpool.attach("test_resnet", "isqrt", 5).train()
    buffers: list[torch.Tensor | None] = [None] * len(list(expected.parameters()))
    for _ in range(2):
        step(x, y)
        gradients = torch.autograd.grad(nn.functional.cross_entropy(expected(x), y), list(expected.parameters()))
        for i, (parameter, gradient) in enumerate(zip(expected.parameters(), gradients, strict=True)):
            before = buffers[i]
            velocity = gradient if before is None else 0.9 * before + gradient
            buffers[i] = velocity
            parameter.data -= 0.01 * velocity
    for ours, theirs in zip(step.network.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_heads_have_options_and_the_memory_of_their_pools() -> None:
    heads = ("isqrt,reduce_to=8", "isqrt,reduce_to=8,iterations=9", "avg")
    records = list(training_steps("test_resnet", 24, CPU, 0.0, size=32, heads=heads))
    assert [r.name for r in records] == [f"test_resnet {head}" for head in heads]
    first, _, average = (r.extra for r in records)
    assert first["delta_mib"] == 0 and first["images_per_s"] > 0 and records[0].shape[0] == 24
    assert average["delta_mib"] == average["pool_mib"] - first["pool_mib"] < 0
    assert parse_head("improved_bcnn,forward=newton_schulz") == ("improved_bcnn", {"forward": "newton_schulz"})
    with pytest.raises(ValueError, match="must be POOL or POOL,OPTION=VALUE"):
        parse_head("isqrt,3")
