from typing import Any

import pytest

from covpool.data._settings import Augment, Data


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("size", 0),
        ("size", 10**9),
        ("resize", (0,)),
        ("scale", (1.0, 0.08)),
        ("scale", (0.0, 0.0)),
        ("ratio", (0.0, 0.0)),
        ("scales", (256,)),
        ("color_jitter", -1.0),
        ("pca_noise", float("nan")),
        ("randaugment", 99),
        ("randaugment", -1),
        ("mean", (float("inf"), 0.0, 0.0)),
        ("std", (0.0, 0.0, 0.0)),
    ],
)
def test_values_out_of_range_are_refused(setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^`augment.{setting}.* must be"):
        Augment(**{setting: value})


def test_the_limits_of_the_ranges_are_accepted() -> None:
    Augment(size=1, resize=(), scale=(1.0, 1.0), scales=(256, 512), randaugment=30)
    Data(workers=0)
    with pytest.raises(ValueError, match=r"`data.workers` must be a whole number, at least 0 and at most 256; got -1"):
        Data(workers=-1)
    with pytest.raises(ValueError, match=r"at most 256; got 100000"):
        Data(workers=100_000)
    with pytest.raises(ValueError, match=r"`data.split_seed` must be a whole number"):
        Data(split_seed=2**64)
