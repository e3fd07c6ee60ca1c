"""`--device`: where a command works."""

import torch

from covpool._errors import CovpoolError


def chosen_device(asked: str) -> str:
    """The device asked for, which must be here; else the GPU if there is one.

    >>> chosen_device("cpu")
    'cpu'
    """
    gpu = torch.cuda.is_available()
    if not asked:
        return "cuda" if gpu else "cpu"
    try:
        kind = torch.device(asked).type
    except RuntimeError:
        kind = ""
    if kind not in ("cpu", "cuda") or (kind == "cuda" and not gpu):
        here = "cpu or cuda" if gpu else "cpu, as there is no GPU here"
        raise CovpoolError(f"--device must be {here}; got {asked!r}")
    return asked
