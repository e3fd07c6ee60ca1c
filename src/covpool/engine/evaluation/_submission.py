"""The submission file of the iNaturalist 2018 challenge: three classes per test image."""

from pathlib import Path

from torch import Tensor

from covpool._errors import CovpoolError
from covpool.data import Images
from covpool.io import replacing

ANSWERS = 3  # the challenge scores the top-3 error


def write_submission(path: Path, scores: Tensor, images: Images) -> None:
    """Write a CSV file `id,predicted` with the three most probable categories of every image.

    Args:
        path: The CSV file.
        scores: Scores (n, classes); column k is category k of the challenge.
        images: The test set, with its `ids`.
    """
    if not images.ids:
        raise CovpoolError("a submission needs the image numbers of the challenge, which only inat2018's test set has")
    answers = scores.topk(min(ANSWERS, scores.shape[1])).indices.tolist()
    lines = [f"{number},{' '.join(map(str, row))}\n" for number, row in zip(images.ids, answers, strict=True)]
    with replacing(path) as partial:
        partial.write_text("".join(["id,predicted\n", *lines]))
