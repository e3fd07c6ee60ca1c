"""The optimizer that a recipe names."""

from typing import TYPE_CHECKING, Any

from covpool._errors import CovpoolError, UnsupportedError, did_you_mean, require
from covpool.recipe._schema import Optimizer

if TYPE_CHECKING:
    import torch


def build_optimizer(groups: list[dict[str, Any]], settings: Optimizer) -> "torch.optim.Optimizer":
    """Build torch's SGD for "sgd", else an optimizer of timm that needs first derivatives only.

    Args:
        groups: Groups of parameters, as torch's optimizers take them.
        settings: Settings of the optimizer.

    Raises:
        UnsupportedError: The optimizer needs a package or a device that this machine does not have.
    """
    name = settings.name
    try:
        made = _build(groups, settings)
    except (AssertionError, ImportError) as error:  # how timm reports a missing package or GPU
        raise UnsupportedError(f"`optimizer.name` = {name!r} cannot be used here: {error}") from error
    except (TypeError, IndexError, RuntimeError) as error:
        raise _unfit(settings, error) from error
    except ValueError as error:
        raise CovpoolError(f"the optimizer of the recipe cannot be built: {error}") from error
    if getattr(made, "is_second_order", False):
        raise CovpoolError(
            f"`optimizer.name` = {name!r} needs second derivatives, which a training step does not compute: use "
            "another, such as adamw"
        )
    return made


def check_optimizer(settings: Optimizer, *, here: bool) -> None:
    """Refuse settings that no optimizer accepts, by building one for a single number; with options it takes a step."""
    from torch import nn, ones, zeros

    number = nn.Parameter(zeros(1))
    try:
        made = build_optimizer([{"params": [number]}], settings)
    except UnsupportedError:  # a matter of the machine that trains, not of the recipe
        if here:
            raise
        return
    if settings.options:  # which not every optimizer checks before its first step
        number.grad = ones(1)
        try:
            made.step()
        except (TypeError, ValueError, IndexError, RuntimeError) as error:
            raise _unfit(settings, error) from error


def _unfit(settings: Optimizer, error: Exception) -> CovpoolError:
    return CovpoolError(f"`optimizer.options` = {settings.options} does not fit {settings.name!r}: {error}")


def _build(groups: list[dict[str, Any]], settings: Optimizer) -> "torch.optim.Optimizer":
    import torch

    shared: dict[str, Any] = {"lr": settings.lr, "momentum": settings.momentum, "weight_decay": settings.weight_decay}
    if settings.name == "sgd":
        return torch.optim.SGD(groups, nesterov=settings.nesterov, **shared, **settings.options)
    library = require("timm.optim", "models")
    names = library.list_optimizers()
    if settings.name not in names:
        raise CovpoolError(f"timm has no optimizer {settings.name!r}{did_you_mean(settings.name, names)}")
    return library.create_optimizer_v2(groups, opt=settings.name, **shared, **settings.options)
