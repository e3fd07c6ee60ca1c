"""The learning rate as a function of the step, so that a resumed run needs no saved schedule."""

import math
from bisect import bisect_right

from covpool.recipe import Schedule


def lr_factor(schedule: Schedule, step: int, *, steps_per_epoch: int, epochs: int) -> float:
    """The factor of the learning rate at one step.

    With e the epoch, E the number of epochs, and t = e / E (with `per_step`, t = step / all steps):

        step      factor ^ (number of milestones at or before e)
        log       end ^ (e / (E - 1)): the values of logspace(log lr, log (lr end), E)
        cosine    end + (1 - end) (1 + cos(pi t)) / 2

    Warm-up multiplies this by a linear ramp that reaches 1 at its last step.

    Args:
        schedule: The table `schedule` of the recipe.
        step: Number of the step in the stage, from 0.
        steps_per_epoch: Optimizer steps per epoch.
        epochs: Epochs of the stage.

    >>> [round(lr_factor(Schedule(milestones=(1, 3)), step, steps_per_epoch=1, epochs=4), 3) for step in range(4)]
    [1.0, 0.1, 0.1, 0.01]
    """
    warmup = schedule.warmup_epochs * steps_per_epoch
    ramp = min(1.0, (step + 1) / warmup) if warmup > 0 else 1.0
    epoch = step // steps_per_epoch
    if schedule.name == "step":
        return ramp * schedule.factor ** bisect_right(schedule.milestones, epoch)
    if schedule.name == "log":
        return ramp * schedule.end ** (epoch / max(epochs - 1, 1))
    if schedule.name == "cosine":
        t = step / (steps_per_epoch * epochs) if schedule.per_step else epoch / epochs
        return ramp * (schedule.end + (1 - schedule.end) * (1 + math.cos(math.pi * t)) / 2)
    return ramp
