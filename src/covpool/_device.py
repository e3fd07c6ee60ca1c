"""The device that a user asks for."""

import torch

from covpool._errors import CovpoolError


def usable_device(asked: str, name: str = "device") -> str:
    """Return the device asked for if this machine has it; for "auto", the GPU if there is one.

    Args:
        asked: "auto", "cpu", "cuda" or "cuda:N".
        name: What the error calls it.

    >>> usable_device("cpu")
    'cpu'
    """
    has_gpu = torch.cuda.is_available()
    if asked == "auto":
        return "cuda" if has_gpu else "cpu"
    try:
        device = torch.device(asked)
    except RuntimeError:
        device = torch.device("meta")
    if asked == "cpu" or (device.type == "cuda" and (device.index or 0) < torch.cuda.device_count()):
        return asked
    expected = "cpu or a GPU of this machine" if has_gpu else "cpu, because this machine has no GPU"
    raise CovpoolError(f"{name} must be {expected}; got {asked!r}")
