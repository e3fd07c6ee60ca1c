"""Advice from records, and the records that come with covpool."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import trees
from covpool._errors import CovpoolError
from covpool.data import Data
from covpool.studies.claims import Arm, ArmResult, advise, describe_images, read_claims, records_folder
from covpool.studies.claims._advice import FolderFacts
from covpool.studies.claims._verdict import pack

BIRDS, TEXTURES = FolderFacts(200, 5994, 29, 30, 30, 256), FolderFacts(10, 800, 80, 80, 80, 224)


def make_results(avg: float, isqrt: float) -> dict[str, dict[str, ArmResult]]:
    """Records of 1000 test images on cub200, at two sizes."""
    found = {}
    for size in (224, 320):
        for pool, top1 in (("avg", avg), ("isqrt", isqrt)):
            right = torch.arange(1000) < 1000 * top1
            arm = Arm(pool=pool, size=size).name
            found[arm] = ArmResult(
                data="cub200", arm=arm, top1=top1, images=1000, right=pack(right), held_out=top1 + size / 1e5
            )
    return {"cub200": found}


def test_the_better_pool_is_recommended() -> None:
    better = advise(BIRDS, make_results(0.6, 0.7), "birds")
    assert (better.pool, better.size, better.command) == ("isqrt", 320, "covpool fit birds pool=isqrt size=320")
    assert better.expected[0].points == pytest.approx(10)
    worse = advise(BIRDS, make_results(0.7, 0.6), "birds")
    assert (worse.pool, worse.size) == ("avg", 224)
    unclear = advise(BIRDS, make_results(0.6, 0.6), "birds")
    assert unclear.pool == "auto" and unclear.command == "covpool fit birds"


def test_records_with_many_images_say_nothing_about_few() -> None:
    few = replace(BIRDS, fewest=4, typical=4, most=4)
    advice = advise(few, make_results(0.6, 0.7), "birds")
    assert advice.pool == "auto" and "no record has about 4 images per class" in advice.reason


def test_without_records_there_is_no_advice() -> None:
    with pytest.raises(CovpoolError, match="no records"):
        advise(BIRDS, {}, "birds")


def test_our_records_recommend_what_the_runs_say() -> None:
    results = read_claims(records_folder())
    birds, textures = advise(BIRDS, results, "cub200"), advise(TEXTURES, results, "dtd-10")
    assert birds.pool == "isqrt" and birds.size >= 320 and birds.expected[0].interval[0] > 0.08
    assert textures.pool == "auto" and textures.expected[0].data == "dtd-10"


def test_a_folder_is_described(tmp_path: Path) -> None:
    root = trees.make_folder(tmp_path, classes=3, per_class=4)
    assert describe_images(Data(root=str(root))) == FolderFacts(3, 12, 4, 4, 4, 32)


def test_a_sample_of_the_images_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = trees.make_folder(tmp_path, classes=2, per_class=4)
    opened: list[str] = []

    def refuse(path: Path) -> None:
        opened.append(path.name)
        raise OSError

    monkeypatch.setattr("covpool.studies.claims._advice.SAMPLE", 5)
    monkeypatch.setattr("PIL.Image.open", refuse)
    with pytest.raises(CovpoolError, match="none of 5 images, evenly spread over the training images, can be read"):
        describe_images(Data(root=str(root)))
    assert opened == [f"train_{c}_{i}.png" for c, i in ((0, 0), (0, 1), (0, 3), (1, 0), (1, 2))]
