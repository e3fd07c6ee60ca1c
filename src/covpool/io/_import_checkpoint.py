"""Import of other people's covariance-pooling checkpoints."""

import logging
import os
from typing import Any

from torch import Tensor

from covpool._errors import CovpoolError
from covpool._files import find_state, read_tensors
from covpool.io._layouts import CONVOLUTION, Layout, State, recognize
from covpool.models import Network, attach, fill

logger = logging.getLogger(__name__)

HIDDEN = ("classifier.0.weight", "classifier.3.weight")  # hidden layers of a classifier without norms


def import_checkpoint(
    path: str | os.PathLike[str],
    *,
    num_classes: int | None = None,
    iterations: int = 5,
    keep_last_stride: bool | None = None,
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

    >>> import_checkpoint("mpncovresnet50-15991845.pth")
    Traceback (most recent call last):
        ...
    FileNotFoundError: there is no weights file mpncovresnet50-15991845.pth
    """
    state, architecture = _read(path)
    layout = recognize(state)
    if layout.warning:
        logger.warning("%s: %s", layout.name, layout.warning)
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
        f"torchvision/{layout.backbone}",
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
