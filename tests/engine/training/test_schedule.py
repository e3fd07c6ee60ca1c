import numpy as np
import pytest
import torch

from covpool.engine.training._schedule import lr_factor
from covpool.recipe._schema import Schedule


def factors(schedule: Schedule, epochs: int, steps_per_epoch: int = 3) -> list[float]:
    steps = range(epochs * steps_per_epoch)
    return [lr_factor(schedule, s, steps_per_epoch=steps_per_epoch, epochs=epochs) for s in steps]


def of_torch(scheduler: type, epochs: int, steps_per_epoch: int = 3, **options: object) -> list[float]:
    """The same factors from torch's own scheduler, stepped once per epoch."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    made = scheduler(optimizer, **options)
    found = []
    for _ in range(epochs):
        found += steps_per_epoch * [made.get_last_lr()[0]]
        optimizer.step()
        made.step()
    return found


def test_constant() -> None:
    assert factors(Schedule(name="constant"), 4) == [1.0] * 12


def test_step_against_torch() -> None:
    expected = of_torch(torch.optim.lr_scheduler.MultiStepLR, 8, milestones=[3, 5, 6], gamma=0.2)
    assert factors(Schedule(name="step", milestones=(3, 5, 6), factor=0.2), 8) == pytest.approx(expected)


def test_log_is_the_logspace_of_the_paper() -> None:
    """AlexNet: 20 epochs from 10^-1.2 to 10^-5 in the paper."""
    expected = np.repeat(np.logspace(-1.2, -5.0, 20), 3)
    found = factors(Schedule(name="log", end=10.0 ** (-5 + 1.2)), 20)
    np.testing.assert_allclose(10.0**-1.2 * np.array(found), expected, rtol=1e-12)


def test_log_of_one_epoch() -> None:
    assert factors(Schedule(name="log", end=1e-4), 1) == [1.0] * 3


def test_cosine_against_torch() -> None:
    expected = of_torch(torch.optim.lr_scheduler.CosineAnnealingLR, 10, T_max=10, eta_min=0.1)
    assert factors(Schedule(name="cosine", end=0.1), 10) == pytest.approx(expected)


def test_cosine_per_step() -> None:
    expected = of_torch(torch.optim.lr_scheduler.CosineAnnealingLR, 30, 1, T_max=30)
    assert factors(Schedule(name="cosine", per_step=True), 10) == pytest.approx(expected)


@pytest.mark.parametrize("epochs", [2.0, 1.5])
def test_warm_up_is_a_linear_ramp(epochs: float) -> None:
    found = factors(Schedule(name="constant", warmup_epochs=epochs), 4, steps_per_epoch=4)
    count = int(epochs * 4)
    assert found == pytest.approx([(i + 1) / count for i in range(count)] + [1.0] * (16 - count))
