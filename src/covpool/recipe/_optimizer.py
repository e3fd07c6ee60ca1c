"""The optimizer a recipe names, on the parameters of a network that learn."""

import torch

from covpool._check import did_you_mean, require
from covpool._errors import CovpoolError
from covpool.models import Network
from covpool.recipe._schema import Optimizer

BASE_LR = "initial_lr"  # of a group: what the schedule multiplies; the name torch's own schedulers use


def make_optimizer(network: Network, settings: Optimizer) -> torch.optim.Optimizer:
    """SGD of torch for "sgd", else an optimizer of timm that works with first derivatives.

    Args:
        network: only parameters with requires_grad are taken.
        settings: of the recipe; the classifier gets a learning rate of its own.

    >>> import covpool
    >>> network = covpool.attach("torchvision/resnet18", "isqrt", num_classes=3, reduce_to=16)
    >>> optimizer = make_optimizer(network, Optimizer(lr=0.1, head_factor=5))
    >>> [(group["name"], group["lr"]) for group in optimizer.param_groups]
    [('features', 0.1), ('pool', 0.1), ('classifier', 0.5)]
    """
    groups = network.parameter_groups(
        settings.lr,
        head_factor=settings.head_factor,
        weight_decay=settings.weight_decay,
        decay_norms=settings.decay_norms,
    )
    if not groups:
        raise CovpoolError("nothing is left to learn: `train.freeze` names every part of the network")
    head = "pool" if network.pool.output == "scores" else "classifier"
    for group in groups:
        group[BASE_LR] = group["lr"]
        if group["name"] == head and settings.head_weight_decay is not None:
            group["weight_decay"] = settings.head_weight_decay
    try:
        made = _make(groups, settings)
    except (AssertionError, ImportError) as error:  # timm's way to say that a package or a GPU is missing
        raise CovpoolError(f"`optimizer.name` = {settings.name!r} cannot be used here: {error}") from error
    except TypeError as error:
        raise CovpoolError(
            f"`optimizer.options` = {settings.options} does not fit {settings.name!r}: {error}"
        ) from error
    if getattr(made, "is_second_order", False):
        raise CovpoolError(
            f"`optimizer.name` = {settings.name!r} needs second derivatives, which a training here does not compute: "
            "use another, such as adamw"
        )
    return made


def set_lr(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Every group at its own learning rate times `factor`."""
    for group in optimizer.param_groups:
        group["lr"] = group[BASE_LR] * factor


def _make(groups: list[dict[str, object]], settings: Optimizer) -> torch.optim.Optimizer:
    if settings.name == "sgd":
        return torch.optim.SGD(
            groups, settings.lr, momentum=settings.momentum, nesterov=settings.nesterov, **settings.options
        )
    library = require("timm.optim", "models")
    names = library.list_optimizers()
    if settings.name not in names:
        raise CovpoolError(f"timm has no optimizer {settings.name!r}{did_you_mean(settings.name, names)}")
    made: torch.optim.Optimizer = library.create_optimizer_v2(
        groups,
        opt=settings.name,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        momentum=settings.momentum,
        **settings.options,
    )
    return made
