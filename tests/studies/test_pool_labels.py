import re

import pytest

from covpool.studies._pool_labels import split_label


def test_options_are_read_as_toml() -> None:
    assert split_label("spdnet:dims=[8,4]:eps=1e-4", "pools") == ("spdnet", {"dims": [8, 4], "eps": 1e-4})


@pytest.mark.parametrize(
    ("label", "message"),
    [("isqr", "`pool` must name registered pools; got 'isqr' (did you mean 'isqrt'?)"), ("avg:x", "NAME:option=value")],
)
def test_mistakes_are_named(label: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        split_label(label, "pool")
