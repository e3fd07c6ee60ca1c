"""Reading tensors from files, without ever running what is in them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from covpool._check import require
from covpool._errors import CovpoolError

WRAPPINGS = ("state_dict", "model_state_dict", "model")  # names of the state dict in a training checkpoint


def read_tensors(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The contents of a weights file: a state dict, or a training checkpoint with one inside.

    Args:
        path: .safetensors, or whatever torch.save wrote (.pth, .pt, .bin); code in a pickle is refused, not run.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no weights file {os.fspath(path)}")
    safetensors = require("safetensors.torch", "models") if Path(path).suffix == ".safetensors" else None
    try:
        contents = safetensors.load_file(path) if safetensors else torch.load(path, "cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # of a damaged file torch complains in many ways
        raise CovpoolError(
            f"{os.fspath(path)!r} is damaged, or holds more than tensors and plain values, and no code is run from a "
            'file: where you trust it, save its state dict alone, torch.save(checkpoint["state_dict"], path)'
        ) from error
    if not isinstance(contents, Mapping):
        raise CovpoolError(f"{os.fspath(path)!r} must hold a state dict; got {type(contents).__name__}")
    return contents


def find_state(contents: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state dict inside a training checkpoint; a bare one is itself.

    >>> find_state({"epoch": 3, "state_dict": {"weight": 1}})
    {'weight': 1}
    """
    return next((contents[key] for key in WRAPPINGS if isinstance(contents.get(key), Mapping)), contents)
