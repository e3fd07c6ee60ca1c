"""The settings of a fit."""

import re
from pathlib import Path

import pytest

from covpool.studies.fit import Fit, read_fit


def test_lists_and_single_values_are_accepted() -> None:
    fit = read_fit("birds", ["pool=[avg, isqrt:iterations=3]", "size=[224, 320]", "level=layer3"])
    assert (fit.pools, fit.size, fit.level) == (("avg", "isqrt:iterations=3"), (224, 320), ("layer3",))
    assert read_fit("birds", ["pool=gaussian", "size=320"]).size == (320,)
    assert Fit(data={"root": "birds"}, pool="mpn", size=320) == read_fit("birds", ["pool=mpn", "size=320"])


def test_everything_is_chosen_by_default() -> None:
    fit = read_fit("data/birds")
    assert fit.is_auto and fit.pools == ("avg", "isqrt", "gaussian")
    assert fit.uses_pretrained and not read_fit("birds", ["weights=file.pth"]).uses_pretrained
    assert not read_fit("birds", ["pretrained=false"]).uses_pretrained
    assert fit.folder == Path("runs", "fit-birds") and read_fit("birds", ["out=there"]).folder == Path("there")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("pool=isqr", "did you mean 'isqrt'"),
        ("pool=fbn", "gives scores: choose another"),
        ("pool=isqrt:iterations", "NAME:option=value"),
        ("folds=1", "`folds` must be a whole number, at least 2; got 1"),
        ("width=0", "`width` must be a positive integer"),
        ("class_weights=some", "`class_weights` must be 'none' or 'balanced'"),
        ("poool=avg", "unknown setting `poool` (did you mean 'pool'?)"),
        ("pool=[]", "`pool` must have at least one value"),
    ],
)
def test_mistakes_are_named(setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_fit("birds", [setting])


def test_weights_come_from_one_place() -> None:
    with pytest.raises(ValueError, match="choose one"):
        read_fit("birds", ["weights=file.pth", "pretrained=true"])
    with pytest.raises(ValueError, match="no images are named"):
        Fit()
