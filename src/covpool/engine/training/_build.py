"""From a recipe to a network: its architecture, its initial weights, and which parts are trained."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

import covpool
from covpool._errors import CovpoolError, did_you_mean
from covpool._files import read_tensors
from covpool.io import Checkpoint, Preprocessing, is_checkpoint, read_checkpoint
from covpool.models import Architecture, AttachedArchitecture, Network, fill, last_linear, misfits, pool_of, rebuild
from covpool.recipe import Model, Recipe, pool_options

STRIDE_REMOVED = "the last stride of the fitted backbone is removed (model.keep_last_stride=true keeps it)"


@dataclass
class Built:
    """A network with its initial weights.

    Attributes:
        network: The network.
        notes: Where its weights come from, for the user.
        inputs: How the weights expect images; None for the backbone's own settings.
        has_own_pool: Whether the weights of the pool come from a checkpoint.
    """

    network: Network
    notes: list[str] = field(default_factory=list)
    inputs: Preprocessing | None = None
    has_own_pool: bool = False

    def resolve_inputs(self, recipe: Recipe, *, quiet: bool = False) -> Recipe:
        """Fill in the settings of `augment` that a recipe leaves out; all others stay.

        A warning says if the recipe sets another normalization than that of its pre-trained weights.

        Args:
            recipe: The recipe of the network.
            quiet: Leave the warning out, in all processes but the first.
        """
        own = self.inputs or self.network.input_settings
        if (recipe.init.weights or recipe.init.pretrained) and not quiet:
            recipe.augment.warn_if_normalized_otherwise(own)
        return recipe.changed(augment=dict(recipe.augment.resolved(own)))


def build_network(recipe: Recipe, classes: Sequence[str]) -> Built:
    """Build the network of a recipe with its initial weights.

    `init.weights` may be a file with the weights of the backbone, or a covpool checkpoint. The features of a checkpoint
    must match the recipe. Its pool is loaded if it is the same, and its classifier if the classes are the same too. A
    recipe that names no network trains the network of the checkpoint; its pool settings must then match. The
    network of `covpool fit` is trained without the last stride of its backbone, unless the recipe keeps it.

    Args:
        recipe: The recipe; only its tables `model`, `pool` and `init` are used.
        classes: Class names.

    >>> recipe = Recipe(model=Model(backbone="torchvision/resnet18"))
    >>> build_network(recipe, ["cat", "dog"]).network.num_classes
    2
    """
    weights = recipe.init.weights
    checkpoint = read_checkpoint(weights) if weights and is_checkpoint(weights) else None
    is_named = bool(recipe.model.name or recipe.model.backbone)
    architecture = checkpoint.architecture if checkpoint else None
    if not is_named and architecture is None:
        raise CovpoolError(f"{weights} does not describe its network: name it in the recipe, model.backbone=...")
    if checkpoint is None:
        network = _construct(recipe, len(classes), backbone_weights=weights or None)
        origin = f"the backbone from {weights}" if weights else "the backbone with its library's pretrained weights"
        return Built(network, [origin] if weights or recipe.init.pretrained else [])
    notes: list[str] = []
    if is_named:
        network = _construct(recipe, len(classes))
    else:
        assert architecture is not None
        trained = _without_fitted_stride(architecture, checkpoint, recipe)
        network = rebuild(replace(trained, num_classes=len(classes)))
        _check_own_pool(recipe, network)
        notes = [STRIDE_REMOVED] if trained != architecture else []
    same_classes = checkpoint.class_names in (None, tuple(classes))
    notes = [*_take_over(network, weights, same_classes), *notes]
    return Built(network, notes, checkpoint.preprocessing, has_own_pool=_pool_note(weights) in notes)


def freeze(network: nn.Module, parts: Iterable[str]) -> None:
    """Freeze parts of a network; all other parameters are trained, including those that an earlier call froze.

    Args:
        network: The network, changed in place.
        parts: Names of modules or parameters, such as "features" or "features.body.layer1".
    """
    parts = tuple(parts)
    names = [name for name, _ in network.named_parameters()]
    for part in parts:
        if not any(_is_within(name, part) for name in names):
            modules = [name for name, _ in network.named_modules() if name]
            raise CovpoolError(
                f"`train.freeze` must name parts of the network; got {part!r}{did_you_mean(part, modules)}; its parts "
                f"are {', '.join(n for n, _ in network.named_children())}"
            )
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(not any(_is_within(name, part) for part in parts))


def set_training(network: nn.Module, frozen: Sequence[str], *, freeze_norms: bool) -> None:
    """Set training mode, except for frozen parts and, with `freeze_norms`, all batch norms: those do not change."""
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


def _without_fitted_stride(architecture: Architecture, checkpoint: Checkpoint, recipe: Recipe) -> Architecture:
    """The architecture to train: frozen features are better with the last stride, trained ones without it."""
    if not isinstance(architecture, AttachedArchitecture):
        return architecture
    if recipe.model.keep_last_stride and not architecture.keep_last_stride:
        raise CovpoolError(
            f"`model.keep_last_stride` = true requires a network with its last stride; the one of {checkpoint.path} "
            "has none: leave it out, or name a model.backbone"
        )
    is_fitted = checkpoint.training is not None and "fit" in checkpoint.training.notes
    if recipe.model.keep_last_stride or not (is_fitted and architecture.keep_last_stride):
        return architecture
    return replace(architecture, keep_last_stride=False, dense_form=None)


def _check_own_pool(recipe: Recipe, network: Network) -> None:
    """Refuse a recipe whose pool settings differ from those of the checkpoint's network."""
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
                f"`pool.{key}` = {said!r} differs from {recipe.init.weights}. A recipe without a network trains the "
                f"one in that file, with its pool {name!r}: {remedy}, or name a model.backbone to build a new pool and "
                "classifier"
            )


def _backbone_name(model: Model) -> str:
    if model.block_options:
        raise CovpoolError("`model.block_options` must be left out: a block in a recipe has its published options")
    return f"{model.backbone}+{model.block}" if model.block else model.backbone


def _take_over(network: Network, path: str, same_classes: bool) -> list[str]:
    """Load the parts of a checkpoint that fit a network; returns notes for the user."""
    state = read_tensors(path)
    fill(network.features, _part(state, "features"), f"the features in {path} do not match those of the recipe")
    notes = [f"features from {path}"]
    pool, classifier = _part(state, "pool"), _part(state, "classifier")
    own_classifier = network.pool.output == "scores"
    if (same_classes or not own_classifier) and _fill_pool(network.pool, pool):
        notes += [_pool_note(path)] if pool else []
    elif network.pool.state_dict():
        notes.append(f"a new pool: the one in {path} is different")
    if same_classes and not misfits(network.classifier, classifier):
        network.classifier.load_state_dict(classifier, strict=False)
        return [*notes, f"classifier from {path}"] if classifier else notes
    if _fits_but_last(network.classifier, classifier):
        network.classifier.load_state_dict(classifier, strict=False)
        return [*notes, f"hidden layers from {path}, and a new last layer"]
    return [*notes, "a new classifier"]


def _fill_pool(pool: nn.Module, state: dict[str, Tensor]) -> bool:
    """Load saved weights into a pool if they fit, and return whether they do."""
    if misfits(pool, state):
        return False
    try:
        pool.load_state_dict(state, strict=False)
    except CovpoolError:  # buckets of a longer sketch, which have the same shape
        return False
    return True


def _pool_note(path: str) -> str:
    return f"pool from {path}"


def _part(state: Any, name: str) -> dict[str, Tensor]:
    return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}


def _fits_but_last(classifier: nn.Module, state: dict[str, Tensor]) -> bool:
    """Whether all layers but the last fit; removes the last layer from `state`."""
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
    """The number of parameters that are trained."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)
