"""Our own checkpoints: one safetensors file that holds a network and everything needed to build it again."""

import dataclasses
import json
import logging
import os
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import BaseModel, Field, ValidationError
from torch import Tensor, nn

from covpool._errors import CovpoolError, WrongTypeError, require
from covpool.io._atomic import replacing
from covpool.io._description import (
    DataSplit,
    Description,
    EvaluationSettings,
    Preprocessing,
    TrainingRecord,
    layer_sizes,
    one_line,
    option_sizes,
)
from covpool.io._format_1 import upgrade
from covpool.io._hub import SCHEME, download
from covpool.io._limited_build import limited_build
from covpool.models import Network, misfits, outside_source, rebuild, with_stride_form
from covpool.pools import Pool

logger = logging.getLogger(__name__)

D = TypeVar("D", bound=Description)

KEY = "covpool"  # name of our JSON in the metadata of the safetensors file
FORMAT = 2
FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)  # the dtypes of weights
SAFE_SIZE = 4096  # of a layer that is built before its weights are compared with those in the file
REPLACED_ELEMENTS = 2**28  # of the classifiers that backbones are built with and lose; VGG-19's has 2**27
REPLACED_TENSORS = 1000
RECORDED = ("covpool", "torch", "torchvision", "timm", "safetensors")

Backbones = nn.Module | tuple[nn.Module, ...]


class Checkpoint(Description):
    """A checkpoint file: its description, read without its weights, and `load` to get the network.

    Attributes:
        path: The file.
    """

    path: Path = Field(exclude=True)

    def load(
        self, *, backbone: Backbones | None = None, pool: Pool | None = None, device: torch.device | str = "cpu"
    ) -> Network:
        """Build the network and fill it with the weights in the file; the arguments are those of `covpool.load`."""
        state = require("safetensors.torch", "models").load_file(self.path)
        network = self.build(state, backbone=backbone, pool=pool).cpu()
        found = misfits(network, state) or _other_kinds(network, state)
        if found:
            versions = ", ".join(" ".join(pair) for pair in self.versions.items())
            raise CovpoolError(
                f"the weights in {str(self.path)!r} do not fit its architecture: {found}. The file is damaged, or a "
                f"library has changed: install the versions that wrote it ({versions or 'unknown'})"
            )
        for name, tensor in network.state_dict(keep_vars=True).items():
            if name in state:
                tensor.data = state[name].clone()  # keeps ties, takes the dtype over, and unmaps the file
        network.origin = self.origin
        if self.preprocessing is not None:
            network.input_settings = self.preprocessing.input_settings()
        if self.channels_last:
            network.to(memory_format=torch.channels_last)
        return network.to(device).eval()

    def build(
        self, state: Mapping[str, Tensor], *, backbone: Backbones | None = None, pool: Pool | None = None
    ) -> Network:
        """Build the network with fresh weights. Refuse one that is much larger than `state`, its saved weights.

        No other file is read and no request is sent; `backbone` and `pool` are those of `covpool.load`.
        """
        self._check_layers(max((size for tensor in state.values() for size in tensor.shape), default=0))
        elements = sum(tensor.numel() for tensor in state.values())
        # Twice, because a network in the form of covpool 0.2.0 is built twice.
        with limited_build(2 * elements + REPLACED_ELEMENTS, 2 * len(state) + REPLACED_TENSORS):
            return self._build(backbone, pool)

    def _check_layers(self, largest: int) -> None:
        """Refuse a layer that is larger than any in the file, before memory is taken for it."""
        for name, size in [*layer_sizes(self.architecture), *option_sizes(self.architecture)]:
            if size > max(SAFE_SIZE, largest):
                raise CovpoolError(
                    f"the weights in {str(self.path)!r} do not fit its architecture: `{name}` is {size}, and no tensor "
                    f"in the file has more than {largest} rows. The file is damaged"
                )

    def _build(self, backbone: Backbones | None, pool: Pool | None) -> Network:
        if self.architecture is None:
            if not isinstance(backbone, Network):
                raise CovpoolError(
                    f"the network of {str(self.path)!r} was put together by hand: give a Network built in the same way "
                    f"as `backbone`; got {type(backbone).__name__}"
                )
            return backbone
        source = outside_source(self.architecture)
        if source is not None and backbone is None:
            raise CovpoolError(
                f"the network of {str(self.path)!r} must be built without other files or the network; it asks for "
                f"{source}, which covpool does not know as safe: build the backbone yourself and give it as `backbone`"
            )
        try:
            return rebuild(self.architecture, backbone=backbone, pool=pool)
        except (TypeError, ValueError, RuntimeError, MemoryError) as error:
            raise CovpoolError(f"the network of {str(self.path)!r} cannot be built: {error}") from error


def save(
    model: Network,
    path: str | os.PathLike[str],
    *,
    class_names: Sequence[str] | None = None,
    preprocessing: Preprocessing | Mapping[str, Any] | None = None,
    evaluation: EvaluationSettings | Mapping[str, Any] | None = None,
    data: DataSplit | Mapping[str, Any] | None = None,
    training: TrainingRecord | Mapping[str, Any] | None = None,
) -> None:
    """Write a network into one safetensors file, with everything needed to build it again as JSON in its metadata.

    The file is written under a temporary name and renamed, so a crash never leaves an incomplete file.

    Args:
        model: A network of `covpool.attach` or `covpool.create_model`. If its backbone or its pool was given as an
            object, a warning says that `load` needs that object.
        path: The file, usually with the suffix .safetensors.
        class_names: One name per class.
        preprocessing: How images become inputs, as fields of `covpool.io.Preprocessing`; the network's own by default.
        evaluation: How the network is evaluated, as fields of `covpool.io.EvaluationSettings`.
        data: What the network was trained on, as fields of `covpool.io.DataSplit`.
        training: The training run, as fields of `covpool.io.TrainingRecord`.

    Example: see `load`.
    """
    if not isinstance(model, Network):
        raise WrongTypeError(
            f"`model` must be a covpool Network, of covpool.attach or covpool.create_model; got {type(model).__name__}"
        )
    architecture = model.architecture
    if architecture is not None and model.pool.output == "features" and isinstance(model.get_classifier(), nn.Identity):
        raise CovpoolError("`model` has no classifier, so it cannot be built again: give it one, reset_classifier(...)")
    if preprocessing is None:
        preprocessing = dataclasses.asdict(model.input_settings)
    parts = {"preprocessing": preprocessing, "evaluation": evaluation, "data": data, "training": training}
    description = _describe(
        Description,
        {
            "architecture": None if architecture is None else dataclasses.asdict(architecture),
            "class_names": _check_names(model, class_names),
            **{key: part.model_dump() if isinstance(part, BaseModel) else part for key, part in parts.items()},
            "origin": model.origin,
            "versions": _versions(),
            "channels_last": _is_channels_last(model),
        },
    )
    objects = _objects_needed(description)
    if objects:
        logger.warning(
            "%s does not say how its %s is built: load it with covpool.load(path, %s)",
            os.fspath(path),
            " and its ".join(objects),
            ", ".join(f"{name}=..." for name in objects),
        )
    safetensors = require("safetensors.torch", "models")
    text = json.dumps({"format": FORMAT, **json.loads(description.model_dump_json())})  # which writes NaN as null
    with replacing(path) as partial:
        safetensors.save_file(_separate_tensors(model), partial, metadata={KEY: text})


def load(
    path: str | os.PathLike[str],
    *,
    backbone: Backbones | None = None,
    pool: Pool | None = None,
    device: torch.device | str = "cpu",
) -> Network:
    """Load the network in a file of `save`, in eval mode: the same outputs, bit for bit, on the same device.

    No code in the file is executed, no other file is read, and nothing but an address on the hub is downloaded. Weights
    keep the dtype and the memory format they were saved in.

    Args:
        path: The file, or "hf://owner/name" or "hf://owner/name@revision" for a checkpoint on the Hugging Face Hub.
            Both are checked in the same way.
        backbone: A backbone built in the same way (a tuple for several), for a model that was attached to a backbone
            object. A Network built in the same way, for a Network put together by hand. It receives the weights and is
            changed in place.
        pool: A pool built in the same way, for a model that was attached with a pool object.
        device: Device of the network.

    >>> import tempfile, torch, covpool
    >>> model = covpool.attach("torchvision/resnet18", "isqrt", num_classes=3, reduce_to=16).eval()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     covpool.save(model, f"{folder}/model.safetensors", class_names=["cat", "dog", "fox"])
    ...     again = covpool.load(f"{folder}/model.safetensors")
    >>> x = torch.randn(1, 3, 64, 64)
    >>> torch.equal(model(x), again(x))
    True
    """
    return read_checkpoint(path).load(backbone=backbone, pool=pool, device=device)


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read the description of a checkpoint, without its weights.

    >>> import tempfile, covpool
    >>> model = covpool.create_model("resnet18_isqrt_2k", num_classes=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     covpool.save(model, f"{folder}/model.safetensors", class_names=["cat", "dog"])
    ...     checkpoint = covpool.io.read_checkpoint(f"{folder}/model.safetensors")
    >>> checkpoint.class_names, checkpoint.architecture.name
    (('cat', 'dog'), 'resnet18_isqrt_2k')
    """
    if isinstance(path, str) and path.startswith(SCHEME):
        path = download(path)
    name = repr(os.fspath(path))
    text = _read_text(path)
    if text is None:
        raise CovpoolError(
            f"{name} was not written by covpool.save: it holds weights without a description; "
            "give weights of a plain backbone to covpool.attach, others' networks to covpool.import_checkpoint"
        )
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CovpoolError(f"the description in {name} is damaged, it is not JSON: {error}") from error
    form = found.get("format") if isinstance(found, dict) else None
    if form not in (1, FORMAT) or isinstance(form, bool):
        remedy = "upgrade covpool" if isinstance(form, int) and form > FORMAT else "the file is damaged"
        raise CovpoolError(f"the description in {name} must have format 1 to {FORMAT}; got {form!r}: {remedy}")
    fields = upgrade(found) if form == 1 else {key: value for key, value in found.items() if key != "format"}
    return _checked(fields, path)


def rebuild_saved(
    architecture: Mapping[str, Any], state: Mapping[str, Tensor], path: str | os.PathLike[str]
) -> Network:
    """Build a network, with fresh weights, from what a file says about it: checked as that of a checkpoint is.

    Args:
        architecture: `dataclasses.asdict` of the architecture, as read from the file.
        state: The weights in the file, which limit the size of the network.
        path: The file, for messages.
    """
    return _checked({"architecture": architecture}, path).build(state)


def _checked(fields: Mapping[str, Any], path: str | os.PathLike[str]) -> Checkpoint:
    stored = fields.get("architecture")
    if isinstance(stored, dict):
        fields = {**fields, "architecture": with_stride_form(stored)}
    try:
        return _describe(Checkpoint, {**fields, "path": os.fspath(path)})
    except CovpoolError as error:
        raise CovpoolError(f"the description in {os.fspath(path)!r} is damaged: {error}") from error


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether a file was written by `save`; other weights, of a plain backbone for example, are not checkpoints."""
    try:
        return _read_text(path) is not None
    except CovpoolError:
        return False


def _read_text(path: str | os.PathLike[str]) -> str | None:
    """Our JSON in a safetensors file, None in a safetensors file of others."""
    if Path(path).is_dir():
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder: name a checkpoint, as best.safetensors of a run")
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r}")
    safetensors = require("safetensors", "models")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            text: str | None = (file.metadata() or {}).get(KEY)
    except safetensors.SafetensorError as error:
        raise CovpoolError(
            f"{os.fspath(path)!r} is not a whole safetensors file ({error}); "
            "other people's .pth files are read by covpool.import_checkpoint"
        ) from error
    return text


def _describe(kind: type[D], fields: Mapping[str, Any]) -> D:
    """A checked description of plain values; lists stand for tuples, as in JSON."""
    try:
        text = json.dumps(fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongTypeError(
            f"what is saved beside the weights must be plain JSON (text, numbers, lists): {error}"
        ) from error
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise one_line(error) from error


def _other_kinds(network: Network, state: Mapping[str, Tensor]) -> str:
    """Which weights are whole numbers in place of real ones or the reverse, in words; an empty string if none are."""
    for name, tensor in network.state_dict().items():
        if name in state and state[name].dtype not in (FLOATING if tensor.is_floating_point() else (tensor.dtype,)):
            return f"{name} is {state[name].dtype}"
    return ""


def _check_names(model: Network, class_names: Sequence[str] | None) -> list[str] | None:
    if class_names is None:
        return None
    if isinstance(class_names, str):
        raise WrongTypeError(f"`class_names` must be a list of names, one per class; got the text {class_names!r}")
    names = list(class_names)
    if len(names) != model.num_classes:
        raise CovpoolError(f"`class_names` must have one name per class, {model.num_classes}; got {len(names)}")
    return names


def _objects_needed(description: Description) -> list[str]:
    """The arguments of `load` that must be given as objects."""
    architecture = description.architecture
    if architecture is None:
        return ["backbone"]
    missing = [name for name in ("backbone", "pool") if getattr(architecture, name, "") is None]
    return ["backbone", *missing] if outside_source(architecture) else missing


def _versions() -> dict[str, str]:
    found = {}
    for name in RECORDED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _separate_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every tensor in contiguous memory of its own, as safetensors requires; a shared weight is written twice."""
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
