"""The submission file of iNaturalist, line by line."""

from pathlib import Path

import pytest
import torch

from covpool.data._images import Images
from covpool.engine.evaluation._tensor_files import write_submission


def test_three_answers_per_image_most_probable_first(tmp_path: Path) -> None:
    images = Images([Path("a.jpg"), Path("b.jpg")], [-1, -1], ("p", "q", "r", "s"), ids=(17, 4))
    scores = torch.tensor([[0.1, 0.4, 0.3, 0.2], [0.7, 0.0, 0.1, 0.2]])
    write_submission(tmp_path / "answers.csv", scores, images)
    assert (tmp_path / "answers.csv").read_text() == "id,predicted\n17,1 2 3\n4,0 3 2\n"


def test_images_without_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inat2018"):
        write_submission(tmp_path / "answers.csv", torch.zeros(1, 3), Images([Path("a")], [0], ("p", "q", "r")))
