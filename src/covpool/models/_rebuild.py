"""Building a network again from the recipe that is stored with it."""

from typing import Any

from covpool._errors import CovpoolError
from covpool.models._attach import Source, attach
from covpool.models._network import Network
from covpool.models._networks import create_model
from covpool.pools import without_plugins


def rebuild(recipe: dict[str, Any], *, backbone: Source | tuple[Source, ...] | None = None) -> Network:
    """The architecture that `recipe` tells of, with fresh weights.

    Args:
        recipe: `network.recipe` of a network that was made by `attach` or by `create_model`.
        backbone: for a network that was attached to a backbone object: one built in the same way.

    >>> import covpool
    >>> network = covpool.create_model("resnet18_isqrt_2k", num_classes=10)
    >>> rebuild(network.recipe).recipe == network.recipe
    True
    """
    arguments = dict(recipe)
    kind = arguments.pop("kind", None)
    options = arguments.pop("pool_options", {})
    if kind not in ("attach", "model"):
        raise CovpoolError(f"a recipe is of kind 'attach' or 'model'; got {kind!r}")
    stored = arguments.pop("backbone", None)
    named = kind == "model" or stored is not None
    if named == (backbone is not None):
        raise CovpoolError(
            "`backbone` must be left out: the recipe names its own"
            if named
            else "this network was attached to a backbone object: give `backbone`, one built in the same way"
        )
    with without_plugins():  # a stored architecture must not decide which code is imported
        if kind == "model":
            return create_model(**arguments, **options)
        source = backbone if stored is None else tuple(stored) if isinstance(stored, list) else stored
        assert source is not None
        return attach(source, **arguments, **options)
