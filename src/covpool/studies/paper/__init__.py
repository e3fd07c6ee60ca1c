"""The numbered tables and figures of the paper: its numbers beside ours."""

from covpool.studies.paper._items import Item as Item
from covpool.studies.paper._items import find_item as find_item
from covpool.studies.paper._items import list_items as list_items
