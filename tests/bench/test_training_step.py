"""The benchmark's step is a real training step."""

import torch
from torch import nn

import covpool
from covpool.bench._training_step import TrainingStep


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
