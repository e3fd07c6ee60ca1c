"""Reading tensors from files without running any code from them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from covpool._errors import CovpoolError, require

WRAPPINGS = ("state_dict", "model_state_dict", "model")  # keys of the state dict in a training checkpoint


def read_tensors(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Read a weights file: a state dict, or a training checkpoint that contains one.

    Args:
        path: A .safetensors file, or a file written by torch.save (.pth, .pt, .bin). Code in a pickle is never run.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no weights file {os.fspath(path)}")
    safetensors = require("safetensors.torch", "models") if Path(path).suffix == ".safetensors" else None
    try:
        contents = safetensors.load_file(path) if safetensors else torch.load(path, "cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # torch raises many kinds of errors for a damaged file
        raise CovpoolError(
            f"{os.fspath(path)!r} must hold only tensors and plain values; it is damaged or holds other objects, which "
            'are not loaded: if you trust it, save its state dict alone, torch.save(checkpoint["state_dict"], path)'
        ) from error
    if not isinstance(contents, Mapping):
        raise CovpoolError(f"{os.fspath(path)!r} must hold a state dict; got {type(contents).__name__}")
    return contents


def find_state(contents: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state dict inside a training checkpoint, or the contents themselves if they are a state dict.

    >>> find_state({"epoch": 3, "state_dict": {"weight": 1}})
    {'weight': 1}
    """
    return next((contents[key] for key in WRAPPINGS if isinstance(contents.get(key), Mapping)), contents)
