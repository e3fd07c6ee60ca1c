"""Training steps on images beside the same steps on random tensors."""

from pathlib import Path

import pytest
import torch

from covpool.bench._loading import measure_loading
from trees import make_folder


def test_both_kinds_are_measured_on_the_same_steps(tmp_path: Path) -> None:
    root = make_folder(tmp_path, classes=2, per_class=4)
    records = list(measure_loading("test_resnet", str(root), torch.device("cpu"), batch=4, size=32))
    assert [r.name.split(", ")[1] for r in records] == [
        *("random tensors", "images"),
        *("features of random tensors", "features of images", "scores of images"),
    ]
    assert records[0].ratio == 1.0 and records[1].extra["images_per_s"] == pytest.approx(4e3 / records[1].median_ms)
