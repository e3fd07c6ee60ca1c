from typing import Any

import pytest

from covpool.data._settings import Augment, Data, check_augment, check_data


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("size", 0),
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
def test_numbers_that_make_no_input(setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^`augment.{setting}.* must be"):
        check_augment(Augment(**{setting: value}))


def test_the_ends_of_what_is_allowed() -> None:
    check_augment(Augment(size=1, resize=(), scale=(1.0, 1.0), scales=(256, 512), randaugment=30))
    check_data(Data(workers=0))
    with pytest.raises(ValueError, match=r"`data.workers` must be zero or more"):
        check_data(Data(workers=-1))
