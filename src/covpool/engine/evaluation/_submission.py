"""The answer file of the iNaturalist 2018 challenge: three classes per test picture."""

from pathlib import Path

from torch import Tensor

from covpool._errors import CovpoolError
from covpool.data import Images
from covpool.io import replacing

ANSWERS = 3  # the challenge counts top-3 errors


def write_submission(path: Path, scores: Tensor, images: Images) -> None:
    """Write `id,predicted` with the owners' number of every picture and its three likeliest categories.

    Args:
        path: the CSV file.
        scores: (n, classes); column k is category k of the owners' list.
        images: the test part, with its `ids`.
    """
    if not images.ids:
        raise CovpoolError("a submission needs the owners' picture numbers, which only inat2018's test part has")
    answers = scores.topk(min(ANSWERS, scores.shape[1])).indices.tolist()
    lines = [f"{number},{' '.join(map(str, row))}\n" for number, row in zip(images.ids, answers, strict=True)]
    with replacing(path) as partial:
        partial.write_text("".join(["id,predicted\n", *lines]))
