"""Checkpoints of other people's covariance-pooling networks, as networks of ours."""

import logging
import os
from typing import Any

from torch import Tensor

from covpool._errors import CovpoolError
from covpool._files import find_state, read_tensors
from covpool.io._layouts import CONVOLUTION, Layout, State, recognize
from covpool.models import Network, attach, fill

logger = logging.getLogger(__name__)

HIDDEN = ("classifier.0.weight", "classifier.3.weight")  # of a head of hidden layers without norms


def import_checkpoint(
    path: str | os.PathLike[str],
    *,
    num_classes: int | None = None,
    iterations: int = 5,
    keep_last_stride: bool | None = None,
) -> Network:
    """The network in a checkpoint of fast-MPN-COV or GCP_Optimization, in eval mode, with its weights.

    The layout is recognised from the names and shapes in the file, bare or inside a training checkpoint, with the
    wrappings of DataParallel or without; `network.origin` and the log say which it was. No code in the file is run.

    Args:
        path: .pth, .pth.tar or .safetensors.
        num_classes: put a fresh last layer for so many classes in place of the file's, for fine-tuning.
        iterations: of Newton-Schulz, which no file tells; both code bases train with 5.
        keep_last_stride: whether the last stage of the network halves the map. Only one layout leaves it open (resnet50
            and resnet101 trained from scratch with fast-MPN-COV, as "mpncovresnet50" without that stride or as
            "resnet50" with it) and a training checkpoint tells it by its "arch": taken as removed otherwise.

    >>> import_checkpoint("mpncovresnet50-15991845.pth")
    Traceback (most recent call last):
        ...
    FileNotFoundError: there is no weights file mpncovresnet50-15991845.pth
    """
    state, architecture = _read(path)
    layout = recognize(state)
    stride_kept = _stride_kept(layout, architecture, keep_last_stride)
    renamed = {layout.rename(name) or name: tensor for name, tensor in state.items()}
    network = _build(layout, renamed, iterations, stride_kept)
    fill(network, renamed, f"this looks like {layout.name}, but does not fit")
    if num_classes not in (None, network.num_classes):
        assert num_classes is not None
        network.reset_classifier(num_classes)
    network.origin = f"{layout.name}, last stride {'kept' if stride_kept else 'removed'}"
    logger.info("%s: %s", os.fspath(path), network.origin)
    return network.eval()


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], str | None]:
    """The tensors by their names without DataParallel's "module", and the "arch" of a training checkpoint."""
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
            "%s: the file does not tell whether the last stride was kept; taken as removed (mpncovresnet). "
            "Give keep_last_stride=True for a network trained as plain resnet",
            layout.name,
        )
        return False
    return not architecture.startswith("mpncov")


def _build(layout: Layout, state: State, iterations: int, keep_last_stride: bool) -> Network:
    """The architecture, with the widths that the tensors tell."""
    hidden = [state[name].shape[0] for name in HIDDEN if name in state]
    first = state.get(HIDDEN[0] if hidden else "classifier.weight")
    last = state.get("classifier.6.weight" if hidden else "classifier.weight")
    if first is None or last is None:
        raise CovpoolError(
            f"this looks like {layout.name}, but the classifier is not there; covpool.attach takes backbones"
        )
    convolution = state.get(f"{CONVOLUTION}.weight")
    width = None if convolution is None else convolution.shape[0]
    options: dict[str, Any] = {"reduce_to": width, "iterations": iterations, **layout.options}
    network = attach(
        f"torchvision/{layout.backbone}",
        "isqrt",
        last.shape[0],
        keep_last_stride=keep_last_stride,
        head_layers=hidden,
        head_norm=False,
        **options,
    )
    if first.shape[1] != network.pool.out_features:
        raise CovpoolError(
            f"this looks like {layout.name}, but its classifier takes {first.shape[1]} numbers and its covariance "
            f"gives {network.pool.out_features}: it has another pooling"
        )
    return network
