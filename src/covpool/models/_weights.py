"""Backbone weights from local files of timm or torchvision. No code in a file is executed."""

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool._files import find_state, read_tensors
from covpool.models._backbone import Backbone
from covpool.models._residual import gate_tensors

# torchvision's published DenseNet weights write norm.1 for norm1
OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)")


def load_backbone_weights(backbone: Backbone, path: str | Path) -> None:
    """Fill a backbone from a file of its whole classifier, without the entries of the removed modules.

    Inserted blocks keep their fresh weights if the file has no weights for them.

    Args:
        backbone: The backbone, changed in place.
        path: A .safetensors file, or a file of torch.save (.pth, .pt, .bin).
    """
    found = find_state(read_tensors(path))
    state = {key.removeprefix("module."): value for key, value in found.items() if isinstance(value, Tensor)}
    if any(key.startswith("features.body.") for key in state):
        raise CovpoolError(
            f"{path} is a checkpoint of covpool, with pool and classifier, and not the weights of a backbone: load it "
            "with covpool.load, start a training from it with init.weights, or embed images with --model"
        )
    state = {OLD_DENSENET.sub(r"\1\2", key): value for key, value in state.items()}
    gone = tuple(f"{name}." for name in backbone.removed)
    wanted = backbone.body.state_dict()
    state = {key: value for key, value in state.items() if key in wanted or not key.startswith(gone)}
    fresh = {key: wanted[key] for key in gate_tensors(backbone.body)}
    if not fresh.keys() & state.keys():
        state |= fresh
    fill(backbone.body, state, f"{path} does not fit {type(backbone.body).__name__}")


def fill(module: nn.Module, state: Mapping[str, Tensor], complaint: str) -> None:
    """Load a state dict that must fit, apart from the counters of batch norms, which old files lack.

    Args:
        module: The module to fill. It is not changed when the state dict does not fit.
        state: Its tensors by name.
        complaint: The beginning of the error message.
    """
    found = misfits(module, state)
    if found:
        raise CovpoolError(f"{complaint}: {found}")
    module.load_state_dict(state, strict=False)


def misfits(module: nn.Module, state: Mapping[str, Tensor]) -> str:
    """Why a state dict does not fit a module, in words; an empty string if it fits.

    >>> misfits(nn.Linear(2, 3), {"weight": nn.Linear(5, 3).weight, "scale": Tensor()})
    'missing bias; unknown scale; of another shape weight'
    """
    expected = module.state_dict()
    kinds = {
        "missing": [key for key in expected if key not in state and not key.endswith("num_batches_tracked")],
        "unknown": [key for key in state if key not in expected],
        "of another shape": [key for key in expected if key in state and state[key].shape != expected[key].shape],
    }
    return "; ".join(f"{kind} {_some(keys)}" for kind, keys in kinds.items() if keys)


def _some(keys: list[str]) -> str:
    return f"{', '.join(keys[:3])}{f' and {len(keys) - 3} more' if len(keys) > 3 else ''}"
