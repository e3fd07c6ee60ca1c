from pathlib import Path

import pytest

from covpool.data._images import Images
from covpool.data.sets._open import Splits
from covpool.engine.training._trained_on import check_same_data, describe_data


def splits(classes: tuple[str, ...] = ("cat", "dog"), *, train: int = 4, test: int = 2) -> Splits:
    parts = (Images([Path("x.png")] * count, [0] * count, classes) for count in (train, test))
    return Splits(*parts)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (splits(("cat", "fox")), "the class 'dog' is missing, the class 'fox' is new;"),
        (splits(("cat", "dog", "fox")), "the class 'fox' is new;"),
        (splits(("dog", "cat")), "the order of the classes is different;"),
        (splits(train=3, test=1), "3 training images instead of 4, 1 test images instead of 2;"),
    ],
)
def test_differences_are_named(now: Splits, said: str) -> None:
    with pytest.raises(ValueError, match=f"the images in ROOT are not those the run was started with: {said}"):
        check_same_data(describe_data(splits()), now, "ROOT")


def test_same_or_unknown_data_pass() -> None:
    check_same_data(describe_data(splits()), splits(), "ROOT")
    check_same_data({}, splits(), "ROOT")
