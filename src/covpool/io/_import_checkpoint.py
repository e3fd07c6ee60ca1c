"""Import of other people's covariance-pooling checkpoints."""

import logging
import os
from dataclasses import replace
from typing import Any, Literal

from torch import Tensor

from covpool._errors import CovpoolError, check_choice
from covpool._files import find_state, read_tensors
from covpool.io._layouts import CONVOLUTION, Layout, State, recognize
from covpool.models import Network, attach, fill

logger = logging.getLogger(__name__)

StrideIn = Literal["1x1", "3x3"]
HIDDEN = ("classifier.0.weight", "classifier.3.weight")  # hidden layers of a classifier without norms


def import_checkpoint(
    path: str | os.PathLike[str],
    *,
    num_classes: int | None = None,
    iterations: int = 5,
    keep_last_stride: bool | None = None,
    stride_in: StrideIn | None = None,
) -> Network:
    """Load the network in a checkpoint of fast-MPN-COV, GCP_Optimization, DropCov or pytorchcv, in eval mode.

    The layout is recognized by the names and shapes in the file, which may be a bare state dict or a training
    checkpoint, with or without the prefixes of DataParallel; `network.origin` and the log name the layout. No code in
    the file is run.

    Args:
        path: A .pth, .pth.tar or .safetensors file.
        num_classes: Replace the last layer by a fresh one for this many classes, for fine-tuning.
        iterations: Newton-Schulz iterations, which no file contains; all code bases train with 5.
        keep_last_stride: Whether the last stage of the network halves the map. Only one layout leaves this open
            (resnet50 and resnet101 trained from scratch with fast-MPN-COV, as "mpncovresnet50" without that stride or
            as "resnet50" with it). For that layout the default is the "arch" of a training checkpoint, else no stride.
        stride_in: Which convolutions of the bottlenecks have the strides, for ResNets of pytorchcv: "3x3" for
            isqrtcovresnet50b, "1x1" for isqrtcovresnet50. The tensors are the same. "3x3" is assumed, with a warning.

    >>> import_checkpoint("mpncovresnet50-15991845.pth")
    Traceback (most recent call last):
        ...
    FileNotFoundError: there is no weights file mpncovresnet50-15991845.pth
    """
    state, architecture = _read(path)
    layout = recognize(state)
    layout = _with_stride_in(layout, stride_in)
    stride_kept = _stride_kept(layout, architecture, keep_last_stride)
    renamed = {layout.rename(name) or name: tensor for name, tensor in state.items()}
    network = _build(layout, renamed, iterations, stride_kept)
    tried = f"with the names {layout.describe_names()}"
    fill(network, renamed, f"this looks like {layout.name}, but does not fit {tried}")
    if num_classes not in (None, network.num_classes):
        assert num_classes is not None
        network.reset_classifier(num_classes)
    network.origin = f"{layout.name}, last stride {'kept' if stride_kept else 'removed'}"
    logger.info("%s: %s", os.fspath(path), network.origin)
    return network.eval()


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], str | None]:
    """The tensors, named without DataParallel's "module", and the "arch" of a training checkpoint."""
    contents = read_tensors(path)
    architecture = contents.get("arch")
    state = {_without_module(key): value for key, value in find_state(contents).items() if isinstance(value, Tensor)}
    if not state:
        raise CovpoolError(
            f"{os.fspath(path)!r} must hold a state dict; it has {', '.join(map(str, contents)) or 'nothing'}"
        )
    return state, architecture if isinstance(architecture, str) else None


def _without_module(name: str) -> str:
    return ".".join(part for part in name.split(".") if part != "module")


def _stride_kept(layout: Layout, architecture: str | None, asked: bool | None) -> bool:
    if asked is not None:
        return asked
    if layout.keep_last_stride is not None:
        return layout.keep_last_stride
    if architecture is None:
        logger.warning(
            "%s: the file does not say whether the last stride was kept; assuming that it was removed (mpncovresnet). "
            "Give keep_last_stride=True for a network trained as plain resnet",
            layout.name,
        )
        return False
    return not architecture.startswith("mpncov")


def _with_stride_in(layout: Layout, asked: StrideIn | None) -> Layout:
    """The layout with the backbone that has its strides where they were asked for, and that choice in its name."""
    if not layout.stride_in_open:
        if asked is not None:
            raise CovpoolError(
                f"`stride_in` applies to ResNets of pytorchcv with bottlenecks; got {layout.name}: leave it out"
            )
        return layout
    check_choice("stride_in", asked or "3x3", ("1x1", "3x3"))
    if asked is None:
        logger.warning(
            "%s: the file does not say which convolutions have the strides; assuming the 3x3 ones (%sb). Weights of "
            "the network without b give wrong outputs: give stride_in='1x1' (--stride-in 1x1)",
            layout.name,
            layout.name.removeprefix("pytorchcv: "),
        )
    said = f"strides in the {asked or '3x3'} convolutions{'' if asked else ' (assumed)'}"
    backbone = f"covpool/{layout.backbone}_v1" if asked == "1x1" else layout.backbone
    return replace(layout, name=f"{layout.name}, {said}", backbone=backbone)


def _build(layout: Layout, state: State, iterations: int, keep_last_stride: bool) -> Network:
    """Build the network, with the widths of the tensors in the file."""
    hidden = [state[name].shape[0] for name in HIDDEN if name in state]
    first = state.get(HIDDEN[0] if hidden else "classifier.weight")
    last = state.get("classifier.6.weight" if hidden else "classifier.weight")
    if first is None or last is None:
        raise CovpoolError(
            f"this looks like {layout.name}, but it has no classifier: give weights of a backbone to covpool.attach"
        )
    convolution = state.get(f"{CONVOLUTION}.weight")
    width = None if convolution is None else convolution.shape[0]
    options: dict[str, Any] = {"reduce_to": width, **layout.options}
    if layout.pool == "isqrt":
        options["iterations"] = iterations
    network = attach(
        layout.backbone if "/" in layout.backbone else f"torchvision/{layout.backbone}",
        layout.pool,
        last.shape[0],
        keep_last_stride=keep_last_stride,
        head_layers=hidden,
        head_norm=False,
        **options,
    )
    if first.shape[1] != network.pool.out_features:
        raise CovpoolError(
            f"this looks like {layout.name}, but its classifier must take the {network.pool.out_features} values of a "
            f"covariance; it takes {first.shape[1]}, so the file has another pooling"
        )
    return network
