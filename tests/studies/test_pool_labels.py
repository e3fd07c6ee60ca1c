import re

import pytest

import covpool
from covpool.studies._pool_labels import pca_options, split_label


def test_options_are_read_as_toml() -> None:
    assert split_label("spdnet:dims=[8,4]:eps=1e-4", "pools") == ("spdnet", {"dims": [8, 4], "eps": 1e-4})


@pytest.mark.parametrize(
    ("label", "message"),
    [("isqr", "`pool` must name registered pools; got 'isqr' (did you mean 'isqrt'?)"), ("avg:x", "NAME:option=value")],
)
def test_mistakes_are_named(label: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        split_label(label, "pool")


def test_the_channels_of_every_pool() -> None:
    widths = {name: pca_options(name, 1280, 256)["reduce_to"] for name in covpool.list_pools()}
    assert {name: width for name, width in widths.items() if width != 256} == {
        **dict.fromkeys(("avg", "gem", "max", "kernel")),
        "mfafv": 128,
    }
    assert all(pca_options(name, 96, 256)["reduce_to"] is None for name in covpool.list_pools() if name != "mfafv")
    assert pca_options("isqrt", 1280, 0)["reduce_to"] is None
