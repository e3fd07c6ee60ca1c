"""Classifiers of timm and torchvision, and the features of our early networks, by name."""

from collections.abc import Callable
from typing import Any

from torch import nn

from covpool._errors import CovpoolError, WrongTypeError, did_you_mean, require
from covpool.models._early_networks import TABLES, early_features
from covpool.models._insert import insert
from covpool.models._packaged_weights import how_to_install, load_packaged_weights, packaged_weights
from covpool.models._residual import move_strides_first
from covpool.models._small_stem import SMALL_STEM, replace_stem

FIRST_RESNETS = ("resnet50_v1", "resnet101_v1", "resnet152_v1")
SMALL_RESNETS = tuple(f"resnet{depth}{SMALL_STEM}" for depth in (18, 34, 50))


def classifier_by_name(name: str, *, pretrained: bool = False, **options: Any) -> nn.Module:
    """Build a classifier by name: "resnet50" is timm's, "torchvision/resnet50" torchvision's, "covpool/alexnet" ours.

    "resnet50+se" has a block inserted, with its published options. Our own alexnet, vgg_f and vgg_m end after
    their last pooling; resnet50_v1, 101 and 152 have their strides in 1x1 convolutions, as first published;
    resnet18_small_stem, 34 and 50 are for images of about 64 pixels. Ours have no weights to download.

    Args:
        name: Name of the model in its library, with the blocks to insert.
        pretrained: Download its weights. Without a connection, those of an installed package are used, for models
            that have one (torchvision/mobilenet_v2, tf_efficientnet_lite0 to 2).
        options: Options that the library takes for this model.

    >>> type(classifier_by_name("torchvision/resnet18+cbam+sort")).__name__
    'ResNet'
    """
    name, blocks = split_blocks(name)
    try:
        model = _plain(name, pretrained, options)
    except OSError as error:
        if not pretrained:
            raise
        packaged = packaged_weights(name)
        if packaged is None:
            raise OSError(
                f"the weights of {name!r} could not be downloaded ({error}): give a file (weights=FILE, or "
                "init.weights=FILE in a recipe) or start without them (pretrained=false, or init.pretrained=false in a "
                f"recipe){how_to_install(name)}"
            ) from error
        model = _plain(name, False, options)
        load_packaged_weights(model, packaged)
    for block in blocks:
        model = insert(model, block)
    return model


def split_blocks(name: str) -> tuple[str, list[str]]:
    """Split a name into the plain name and the blocks to insert.

    >>> split_blocks("resnet50+se")
    ('resnet50', ['se'])
    """
    if ":" in name:  # an address such as "hf-hub:...", which timm resolves
        return name, []
    plain, *blocks = name.split("+")
    return plain, blocks


def _plain(name: str, pretrained: bool, options: dict[str, Any]) -> nn.Module:
    library, _, short = name.rpartition("/")
    if library == "covpool":
        return _own(short, pretrained, options)
    if library == "torchvision":
        return _torchvision(short, pretrained, options)
    timm = require("timm", "models")
    if not timm.is_model(name) and ":" not in name:
        hint = did_you_mean(name, timm.list_models())
        raise CovpoolError(
            f"timm has no model {name!r}{hint}; torchvision's are named 'torchvision/...', ours 'covpool/...'"
        )
    return _call(timm.create_model, name, options, pretrained=pretrained)


def _own(name: str, pretrained: bool, options: dict[str, Any]) -> nn.Module:
    known = (*TABLES, *FIRST_RESNETS, *SMALL_RESNETS)
    if name not in known:
        raise CovpoolError(f"covpool has no backbone {name!r}{did_you_mean(name, known)}; it has {', '.join(known)}")
    if pretrained:
        raise CovpoolError(f"covpool/{name} has no weights to download: train it, or give a file with `weights`")
    if options:
        raise WrongTypeError(f"covpool/{name} takes no options; got {', '.join(options)}")
    if name in TABLES:
        return early_features(name)
    model = _torchvision(name.removesuffix("_v1").removesuffix(SMALL_STEM), False, {})
    (replace_stem if name in SMALL_RESNETS else move_strides_first)(model)
    return model


def _torchvision(name: str, pretrained: bool, options: dict[str, Any]) -> nn.Module:
    models = require("torchvision", "models").models
    known = models.list_models(module=models)
    if name not in known:
        raise CovpoolError(f"torchvision has no classifier {name!r}{did_you_mean(name, known)}")
    if name in ("googlenet", "inception_v3") and not pretrained:
        options = {"init_weights": False, **options}  # its own initialization takes minutes
    return _call(models.get_model, name, options, **({"weights": "DEFAULT"} if pretrained else {}))


def _call(build: Callable[..., nn.Module], name: str, options: dict[str, Any], **weights: Any) -> nn.Module:
    try:
        return build(name, **weights, **options)
    except (OSError, CovpoolError):
        raise
    except Exception as error:  # libraries complain about options in many ways
        if not options:
            raise
        raise WrongTypeError(
            f"the backbone options {options} must be options of {name!r}; its library says: {error}"
        ) from error
