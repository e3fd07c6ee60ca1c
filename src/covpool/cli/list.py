"""`covpool list`: the available pools, blocks, models and recipes."""

import re
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import covpool
from covpool._errors import CovpoolError
from covpool.cli._output import table


def command(
    *,
    models: str = "",
    recipes: Annotated[bool, typer.Option("--recipes")] = False,
) -> None:
    """List the pooling methods, the blocks for the inside of a backbone, and the networks of the paper.

    Args:
        models: Print the names of the models that match a pattern such as 'resnet50_*', one per line.
        recipes: List the recipes that `covpool train` knows by name, with what they are for.
    """
    if recipes:
        Console().print(_recipes())
    elif models:
        names = covpool.list_models(models)
        if not names:
            raise CovpoolError(f"no model matches {models!r}: `covpool list` explains the names of models")
        typer.echo("\n".join(names))
    else:
        Console().print(_pools(), _blocks(), _networks(), sep="\n")


def _pools() -> Table:
    rows = []
    for name in covpool.list_pools():
        info = covpool.pool_info(name)
        rows.append((name, info.title, info.order.partition(",")[0], Text(_short(info.paper), "dim")))
    title, caption = "Pools: covpool.create_pool(name, in_features, **options)", "`covpool show NAME` tells more"
    return table(("name", "method", "order", "paper"), rows, left=4, title=title, caption=caption)


def _short(paper: str) -> str:
    """The first author and the venue.

    >>> _short("Lin et al., Bilinear CNN Models for Fine-grained Visual Recognition, ICCV 2015")
    'Lin et al., ICCV 2015'
    """
    parts = paper.partition(";")[0].split(", ")
    return f"{parts[0]}, {parts[-1]}"


def _blocks() -> Table:
    infos = [covpool.block_info(name) for name in covpool.list_blocks()]
    rows = [(info.name, info.title, Text(_short(info.paper), "dim")) for info in infos]
    title = "Blocks: covpool.insert(backbone, name), or as in the backbone resnet50+se"
    return table(("name", "method", "paper"), rows, left=3, title=title)


def _recipes() -> Table:
    from covpool.recipe import list_recipes, list_sets, read_about

    rows = [(name, re.split(r"[.:;] | \(", read_about(name))[0]) for name in list_recipes()]
    sets = ", ".join(list_sets())
    caption = f"`covpool show NAME` tells more; add settings with +, as in finetune+cub: {sets}"
    title = "Recipes: covpool train NAME --data FOLDER"
    return table(("name", "about"), rows, left=2, title=title, caption=caption)


def _networks() -> Table:
    from covpool.models import BASES, POOLS

    rows = []
    for network in BASES:
        prefix = f"{network}_{POOLS[0]}_"
        found = covpool.list_models(f"{prefix}*")
        rows.append((network, ", ".join(name.removeprefix(prefix) for name in found)))
    caption = (
        "<network> is the original, <network>_modified has its last stride removed, and "
        f"<network>_<pool>_<representation> has one of {', '.join(POOLS)}, as in resnet50_isqrt_32k"
    )
    title = "Networks of the paper: covpool.create_model(name)"
    return table(("network", "representations"), rows, left=2, title=title, caption=caption)
