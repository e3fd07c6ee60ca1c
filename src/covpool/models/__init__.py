"""Networks: any backbone with any pool, and the paper's networks by name."""

from covpool.models._architecture import (
    Architecture,
    AttachedArchitecture,
    NamedArchitecture,
    outside_source,
)
from covpool.models._attach import attach
from covpool.models._backbone import Backbone, Streams
from covpool.models._cost import Cost, cost
from covpool.models._efficiency import Efficiency, efficiency
from covpool.models._features import make_features
from covpool.models._head import last_linear, make_classifier, make_head
from covpool.models._input_settings import InputSettings, input_settings
from covpool.models._insert import BlockInfo, block_info, insert, list_blocks
from covpool.models._last_stride import LastStrideKept
from covpool.models._network import Network
from covpool.models._networks import BASES, FLATTEN, POOLS, create_model, list_models, pool_of, representation_of
from covpool.models._rebuild import rebuild
from covpool.models._weights import fill, misfits

__all__ = [
    "BASES",
    "FLATTEN",
    "POOLS",
    "Architecture",
    "AttachedArchitecture",
    "Backbone",
    "BlockInfo",
    "Cost",
    "Efficiency",
    "InputSettings",
    "LastStrideKept",
    "NamedArchitecture",
    "Network",
    "Streams",
    "attach",
    "block_info",
    "cost",
    "create_model",
    "efficiency",
    "fill",
    "input_settings",
    "insert",
    "last_linear",
    "list_blocks",
    "list_models",
    "make_classifier",
    "make_features",
    "make_head",
    "misfits",
    "outside_source",
    "pool_of",
    "rebuild",
    "representation_of",
]
