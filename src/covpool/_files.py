"""Reading tensors from files, without ever running what is in them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from covpool._check import require


def read_tensors(path: str | Path) -> Mapping[str, Any]:
    """The contents of a weights file: a state dict, or a training checkpoint with one inside.

    Args:
        path: .safetensors, or whatever torch.save wrote (.pth, .pt, .bin); code in a pickle is refused, not run.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no weights file {path}")
    if Path(path).suffix == ".safetensors":
        tensors: Mapping[str, Any] = require("safetensors.torch", "models").load_file(path)
        return tensors
    contents = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(contents, Mapping):
        raise ValueError(f"{path} must hold a state dict; got {type(contents).__name__}")
    return contents
