"""From a recipe to a network: its architecture, its first weights, and which parts of it learn."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

import covpool
from covpool._check import did_you_mean
from covpool._errors import CovpoolError
from covpool._files import read_tensors
from covpool.io import is_checkpoint, read_checkpoint
from covpool.models import AttachedArchitecture, Network, fill, last_linear, misfits, pool_of, rebuild
from covpool.recipe import Model, Recipe, pool_options


@dataclass
class Built:
    """A network, and in words where its weights come from."""

    network: Network
    notes: list[str] = field(default_factory=list)


def build_network(recipe: Recipe, classes: Sequence[str]) -> Built:
    """The network of a recipe with the weights it starts from.

    `init.weights` may be a file of the backbone's weights, or a covpool checkpoint. Of a checkpoint, the features must
    fit; the pool is taken over where it is the same, and the classifier where the classes are the same too. A recipe
    that names no network trains the checkpoint's own, whose pool it must not contradict.

    Args:
        recipe: its tables `model`, `pool` and `init`.
        classes: the names of the classes.

    >>> from covpool.recipe import Pool
    >>> recipe = Recipe(model=Model(backbone="torchvision/resnet18"), pool=Pool(options={"reduce_to": 16}))
    >>> build_network(recipe, ["cat", "dog"]).network.num_classes
    2
    """
    weights = recipe.init.weights
    checkpoint = read_checkpoint(weights) if weights and is_checkpoint(weights) else None
    is_named = bool(recipe.model.name or recipe.model.backbone)
    architecture = checkpoint.architecture if checkpoint else None
    if not is_named and architecture is None:
        raise CovpoolError(
            f"{weights} does not say how its network is built: name it in the recipe, model.backbone=..."
        )
    if checkpoint is None:
        network = _construct(recipe, len(classes), backbone_weights=weights or None)
        origin = f"the backbone from {weights}" if weights else "the backbone as its library downloads it"
        return Built(network, [origin] if weights or recipe.init.pretrained else [])
    if is_named:
        network = _construct(recipe, len(classes))
    else:
        assert architecture is not None
        network = rebuild(replace(architecture, num_classes=len(classes)))
        _check_own_pool(recipe, network)
    same_classes = checkpoint.class_names in (None, tuple(classes))
    return Built(network, _take_over(network, weights, same_classes))


def freeze(network: nn.Module, parts: Iterable[str]) -> None:
    """Only the parameters outside of `parts` learn from now on.

    Args:
        network: changed in place; what an earlier call froze is freed.
        parts: names of modules or parameters, such as "features" or "features.body.layer1".
    """
    parts = tuple(parts)
    names = [name for name, _ in network.named_parameters()]
    for part in parts:
        if not any(_is_within(name, part) for name in names):
            modules = [name for name, _ in network.named_modules() if name]
            raise CovpoolError(
                f"`train.freeze` names {part!r}, and no parameter of the network is called so"
                f"{did_you_mean(part, modules)}; its parts are {', '.join(n for n, _ in network.named_children())}"
            )
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(not any(_is_within(name, part) for part in parts))


def set_training(network: nn.Module, frozen: Sequence[str], *, freeze_norms: bool) -> None:
    """Training mode, but for frozen parts, which do not change at all, and, if so wished, all batch norms."""
    network.train()
    for name, module in network.named_modules():
        is_norm = isinstance(module, nn.modules.batchnorm._BatchNorm)
        if any(_is_within(name, part) for part in frozen) or (freeze_norms and is_norm):
            module.eval()


def _construct(recipe: Recipe, classes: int, *, backbone_weights: str | None = None) -> Network:
    model = recipe.model
    options = pool_options(recipe)
    if not model.name:
        return covpool.attach(
            _backbone_name(model),
            recipe.pool.name,
            classes,
            keep_last_stride=model.keep_last_stride,
            head_layers=model.head_layers,
            head_norm=model.head_norm,
            levels=model.levels,
            prefix_tokens=model.prefix_tokens,
            backbone_options=model.backbone_options,
            pretrained=recipe.init.pretrained,
            weights=backbone_weights,
            **options,
        )
    if backbone_weights:
        raise CovpoolError(
            f"`init.weights` = {backbone_weights!r} must be a covpool checkpoint for `model.name` = {model.name!r}: "
            "convert it with `covpool convert`, or name a model.backbone for the weights of a plain backbone"
        )
    return covpool.create_model(model.name, classes, **options)


def _check_own_pool(recipe: Recipe, network: Network) -> None:
    """Refuse a recipe that tells of another pool than a checkpoint's own network has."""
    kept = network.architecture
    assert kept is not None
    name = kept.pool if isinstance(kept, AttachedArchitecture) else pool_of(kept.name)
    own = {"name": name, "reduce_to": getattr(kept, "reduce_to", None), **kept.pool_options}
    own = {key: tuple(value) if isinstance(value, list) else value for key, value in own.items()}
    for key, said in {"name": recipe.pool.name, **pool_options(recipe)}.items():
        said = tuple(said) if isinstance(said, list) else said
        if key not in own or said != own[key]:
            remedy = f"set pool.name={name}" if key == "name" else "leave it out"
            raise CovpoolError(
                f"`pool.{key}` = {said!r} is not what {recipe.init.weights} was made with, and a recipe that names no "
                f"network trains the one in that file, with its pool {name!r}: {remedy}, or name a model.backbone to "
                "build the pool and the classifier anew"
            )


def _backbone_name(model: Model) -> str:
    if model.block_options:
        raise CovpoolError(
            "`model.block_options` must be left out: a block named in a recipe has its published options"
        )
    return f"{model.backbone}+{model.block}" if model.block else model.backbone


def _take_over(network: Network, path: str, same_classes: bool) -> list[str]:
    """Fill a network from a checkpoint as far as they agree; what was taken, in words."""
    state = read_tensors(path)
    fill(network.features, _part(state, "features"), f"the features in {path} do not fit those of the recipe")
    notes = [f"features from {path}"]
    pool, classifier = _part(state, "pool"), _part(state, "classifier")
    own_classifier = network.pool.output == "scores"
    if not misfits(network.pool, pool) and (same_classes or not own_classifier):
        network.pool.load_state_dict(pool, strict=False)
        notes += [f"pool from {path}"] if pool else []
    elif network.pool.state_dict():
        notes.append(f"a fresh pool: {path} has another")
    if same_classes and not misfits(network.classifier, classifier):
        network.classifier.load_state_dict(classifier, strict=False)
        return [*notes, f"classifier from {path}"] if classifier else notes
    if _fits_but_last(network.classifier, classifier):
        network.classifier.load_state_dict(classifier, strict=False)
        return [*notes, f"hidden layers from {path}, and a fresh last layer"]
    return [*notes, "a fresh classifier"]


def _part(state: Any, name: str) -> dict[str, Tensor]:
    return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}


def _fits_but_last(classifier: nn.Module, state: dict[str, Tensor]) -> bool:
    """Whether hidden layers can be taken over; the last layer is then removed from `state`."""
    if not isinstance(classifier, nn.Sequential):
        return False
    last = last_linear(classifier)
    prefix = next(name for name, module in classifier.named_modules() if module is last)
    wanted = {key: value for key, value in classifier.state_dict().items() if not _is_within(key, prefix)}
    for key in [key for key in state if _is_within(key, prefix)]:
        del state[key]
    return bool(wanted) and wanted.keys() == state.keys() and all(wanted[k].shape == state[k].shape for k in wanted)


def _is_within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def count_learning(network: nn.Module) -> int:
    """How many numbers learn."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)
