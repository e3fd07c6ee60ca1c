"""Pools as they are typed: NAME or NAME:option=value:..."""

from typing import Any

from covpool._errors import CovpoolError, did_you_mean
from covpool._settings import Text
from covpool.pools import list_pools, pool_info

# Largest number of channels after the PCA. kernel needs descriptors that are not centered, so it gets all channels (0);
# the vectors of mfafv have 550 numbers per channel.
WIDEST = {"kernel": 0, "mfafv": 128}


def split_label(label: str, setting: str) -> tuple[str, dict[str, Any]]:
    """Split the label of a registered pool into its name and its options.

    Args:
        label: The pool as it is typed.
        setting: Name of the setting, for messages.

    >>> split_label("isqrt:iterations=3", "pools")
    ('isqrt', {'iterations': 3})
    """
    name, *settings = label.split(":")
    names = list_pools()
    if name not in names:
        raise CovpoolError(
            f"`{setting}` must name registered pools; got {name!r}{did_you_mean(name, names)}: use {names}"
        )
    options: dict[str, Any] = {}
    for option in settings:
        key, equals, value = option.partition("=")
        if not equals:
            raise CovpoolError(
                f"options of a pool are written NAME:option=value, as in isqrt:iterations=3; got {label!r}"
            )
        options[key] = Text(value).as_toml()
    return name, options


def pca_options(pool: str, channels: int, width: int) -> dict[str, Any]:
    """Return the options of the PCA before a pool on frozen features.

    The PCA reduces `channels` channels to at most `width`; 0 turns it off. Pools that give one number per channel, and
    kernel, get all channels.

    >>> pca_options("isqrt", 1280, 256), pca_options("avg", 1280, 256)
    ({'reduce_to': 256, 'reduce_kind': 'linear'}, {'reduce_to': None, 'reduce_kind': 'linear'})
    """
    width = min(width, WIDEST.get(pool, width))
    reduces = 0 < width < channels and pool_info(pool).size != "c"
    return {"reduce_to": width if reduces else None, "reduce_kind": "linear"}
