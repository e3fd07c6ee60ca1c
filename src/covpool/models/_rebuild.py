"""Building a network again from its architecture."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, fields
from inspect import signature
from typing import Any

from covpool._errors import CovpoolError
from covpool.models._architecture import (
    Architecture,
    AttachedArchitecture,
    NamedArchitecture,
    outside_source,
    read_architecture,
)
from covpool.models._attach import Source, attach
from covpool.models._backbone import Backbone, Streams
from covpool.models._last_stride import remove_last_stride
from covpool.models._network import Network
from covpool.models._networks import create_model
from covpool.pools import Pool, without_plugins

logger = logging.getLogger(__name__)

# The arguments of `attach` that say where weights come from; no stored option may have their names.
SOURCES = set(signature(attach).parameters) - {field.name for field in fields(AttachedArchitecture)}


def rebuild(
    architecture: Architecture | Mapping[str, Any],
    *,
    backbone: Source | tuple[Source, ...] | None = None,
    pool: Pool | None = None,
) -> Network:
    """Build the network that an architecture describes, with fresh weights.

    Swin, Twins, Inception-v3 and LeViT of covpool 0.2.0 keep their last stride, as they were built; one line is logged.

    Args:
        architecture: `network.architecture` of a network made by `attach` or `create_model`, or the mapping that
            `dataclasses.asdict` makes of it.
        backbone: A backbone built in the same way, for a network that was attached to a backbone object.
        pool: A pool built in the same way, for a network that was attached with a pool object.

    >>> import covpool
    >>> network = covpool.create_model("resnet18_isqrt_2k", num_classes=10)
    >>> rebuild(network.architecture).architecture == network.architecture
    True
    """
    known = read_architecture(architecture) if isinstance(architecture, Mapping) else architecture
    arguments = asdict(known)
    named = isinstance(known, NamedArchitecture)
    del arguments["kind"]
    for what, given in (("backbone", backbone), ("pool", pool)):
        stored = named or arguments[what] is not None
        if not stored and given is None:
            raise CovpoolError(f"this network was made with a {what} object: give `{what}`, one built in the same way")
        if stored and given is not None and not (what == "backbone" and outside_source(known)):
            raise CovpoolError(f"`{what}` must be left out: the architecture names its own")
    options = arguments.pop("pool_options")
    if SOURCES & options.keys():
        raise CovpoolError(
            f"`pool_options` must be options of a pool; got {', '.join(sorted(SOURCES & options.keys()))}"
        )
    if not named:
        arguments["backbone"] = arguments["backbone"] if backbone is None else backbone
        arguments["pool"] = arguments["pool"] if pool is None else pool
    with without_plugins():  # a stored architecture must not decide which code is imported
        if isinstance(known, NamedArchitecture):
            return create_model(**arguments, **options)
        del arguments["dense_form"]
        network = attach(**arguments, **options)
        made = network.architecture
        assert isinstance(made, AttachedArchitecture)
        if known.dense_form in (None, made.dense_form):
            return network
        if known.dense_form:
            raise CovpoolError(
                f"the last stride of {known.backbone} must have a dense form, with which it was saved; the "
                "installed timm or torchvision builds it otherwise: install the version that saved it"
            )
        logger.warning("%s keeps its last stride, with which it was trained by covpool 0.2.0", known.backbone)
        return _without_dense_form(attach(**arguments | {"keep_last_stride": True}, **options), known)


def _without_dense_form(network: Network, architecture: AttachedArchitecture) -> Network:
    """Remove the last strides as covpool 0.2.0 did: those of convolutions and poolings only."""
    for stream in network.features if isinstance(network.features, Streams) else (network.features,):
        assert isinstance(stream, Backbone)
        remove_last_stride(stream, str(architecture.backbone), dense_form=False)
    network.architecture = architecture
    return network
