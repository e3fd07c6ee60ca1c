"""Our own checkpoints: one safetensors file, from which the same model comes back with nothing else at hand."""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from covpool._check import require
from covpool._errors import CovpoolError, WrongTypeError
from covpool.io._atomic import replacing
from covpool.models import Network, rebuild

logger = logging.getLogger(__name__)

KEY = "covpool"  # of the safetensors metadata, under which our JSON stands
FORMAT = 1
RECORDED = ("covpool", "torch", "torchvision", "timm", "safetensors")


def save(
    model: Network,
    path: str | os.PathLike[str],
    *,
    class_names: Sequence[str] | None = None,
    preprocessing: Mapping[str, Any] | None = None,
    recipe_extra: Mapping[str, Any] | None = None,
) -> None:
    """Write a model into one safetensors file, with all that is needed to build it again as JSON in its metadata.

    The file is written under a temporary name and renamed, so a crash never leaves half of one.

    Args:
        model: of `covpool.attach` or `covpool.create_model`. One attached to a backbone object, not to a name, is saved
            too, and a warning says that `load` will want that backbone.
        path: the file, by custom ending in .safetensors.
        class_names: one name per class.
        preprocessing: how pictures become inputs, for whoever predicts with the model: anything JSON can hold.
        recipe_extra: more to keep beside the recipe, such as the settings of the training: anything JSON can hold.

    Example: see `load`.
    """
    if not isinstance(model, Network):
        raise WrongTypeError(
            f"`model` must be a covpool Network, of covpool.attach or covpool.create_model; got {type(model).__name__}"
        )
    description = {
        "format": FORMAT,
        "recipe": model.recipe,
        "class_names": None if class_names is None else list(class_names),
        "preprocessing": None if preprocessing is None else dict(preprocessing),
        "recipe_extra": None if recipe_extra is None else dict(recipe_extra),
        "origin": model.origin,
        "versions": _versions(),
        "channels_last": _is_channels_last(model),
    }
    try:
        text = json.dumps(description)
    except (TypeError, ValueError) as error:
        raise WrongTypeError(
            f"what is saved beside the weights must be plain JSON (text, numbers, lists): {error}"
        ) from error
    if model.recipe is None or model.recipe.get("backbone", "") is None:
        logger.warning(
            "%s does not say how its backbone is built, which was given as an object: load it with "
            "covpool.load(path, backbone=...)",
            os.fspath(path),
        )
    safetensors = require("safetensors.torch", "models")
    with replacing(path) as partial:
        safetensors.save_file(_separate_tensors(model), partial, metadata={KEY: text})


def load(
    path: str | os.PathLike[str],
    *,
    backbone: nn.Module | tuple[nn.Module, ...] | None = None,
    device: torch.device | str = "cpu",
) -> Network:
    """The model in a file of `save`, in eval mode: the same outputs, bit for bit, on the same device.

    Nothing in the file is executed. Weights come back in the dtype and memory format they were saved in.

    Args:
        path: the file.
        backbone: for a model that was attached to a backbone object: one built in the same way (a tuple of them for
            several). For a Network put together by hand: such a Network. It gets the weights and is changed in place.
        device: where to put the model.

    >>> import tempfile, torch, covpool
    >>> model = covpool.attach("torchvision/resnet18", "isqrt", num_classes=3, reduce_to=16).eval()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     covpool.save(model, f"{folder}/model.safetensors", class_names=["cat", "dog", "fox"])
    ...     again = covpool.load(f"{folder}/model.safetensors")
    >>> x = torch.randn(1, 3, 64, 64)
    >>> torch.equal(model(x), again(x))
    True
    """
    description = read_metadata(path)
    model = _build(description["recipe"], backbone, path).cpu()
    _take_over(model, require("safetensors.torch", "models").load_file(path), path)
    model.origin = description["origin"]
    if description["channels_last"]:
        model.to(memory_format=torch.channels_last)
    return model.to(device).eval()


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What stands beside the weights in a file of `save`: recipe, class_names, preprocessing, recipe_extra,
    origin (of an imported one) and versions."""
    if Path(path).is_dir():
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder: name a checkpoint, as best.safetensors of a run")
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r}")
    safetensors = require("safetensors", "models")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(KEY)
    except safetensors.SafetensorError as error:
        raise CovpoolError(
            f"{os.fspath(path)!r} is not a whole safetensors file ({error}); "
            "other people's .pth files are read by covpool.import_checkpoint"
        ) from error
    if text is None:
        raise CovpoolError(
            f"{os.fspath(path)!r} was not written by covpool.save: it holds weights without a recipe; "
            "give weights of a plain backbone to covpool.attach, others' networks to covpool.import_checkpoint"
        )
    description: dict[str, Any] = json.loads(text)
    if description["format"] > FORMAT:
        raise CovpoolError(
            f"{os.fspath(path)!r} has format {description['format']}, of covpool {description['versions']['covpool']}, "
            f"and this covpool reads up to {FORMAT}: upgrade it"
        )
    return description


def _versions() -> dict[str, str]:
    found = {}
    for name in RECORDED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _separate_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every name with contiguous memory of its own, as safetensors wants it: a shared weight is written twice."""
    tensors: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in model.state_dict().items():
        tensor = tensor.detach().cpu().contiguous()
        storage = tensor.untyped_storage()
        if storage.data_ptr() in taken or storage.nbytes() != tensor.nbytes:
            tensor = tensor.clone()
        taken.add(tensor.untyped_storage().data_ptr())
        tensors[name] = tensor
    return tensors


def _is_channels_last(model: nn.Module) -> bool:
    return any(
        p.ndim == 4 and not p.is_contiguous() and p.is_contiguous(memory_format=torch.channels_last)
        for p in model.parameters()
    )


def _build(
    recipe: dict[str, Any] | None,
    backbone: nn.Module | tuple[nn.Module, ...] | None,
    path: str | os.PathLike[str],
) -> Network:
    if recipe is not None:
        try:
            return rebuild(recipe, backbone=backbone)
        except (TypeError, ValueError) as error:
            raise CovpoolError(f"the network of {os.fspath(path)!r} cannot be built: {error}") from error
    if not isinstance(backbone, Network):
        raise CovpoolError(
            f"the network of {os.fspath(path)!r} was put together by hand: give a Network built in the same way as "
            f"`backbone`; got {type(backbone).__name__}"
        )
    return backbone


def _take_over(model: nn.Module, state: dict[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Fill a model from the tensors of the file, in the file's dtypes."""
    expected = model.state_dict(keep_vars=True)
    odd = sorted(expected.keys() ^ state.keys())
    odd += [name for name in expected.keys() & state.keys() if expected[name].shape != state[name].shape]
    if odd:
        raise CovpoolError(
            f"the weights in {os.fspath(path)!r} do not fit the network of its recipe: {', '.join(odd[:5])}"
            f"{f' and {len(odd) - 5} more' if len(odd) > 5 else ''}; another version of the backbone's library?"
        )
    for name, tensor in expected.items():
        tensor.data = state[name].clone()  # which keeps ties, takes the dtype over, and lets go of the mapped file
