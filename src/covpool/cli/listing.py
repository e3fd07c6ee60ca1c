"""`covpool list`: what there is."""

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import covpool
from covpool._errors import CovpoolError
from covpool.models import BASES, POOLS
from covpool.recipe import list_recipes, list_sets, read_recipe


def list_all(
    models: Annotated[
        str, typer.Option(help="print the names of models that match, one a line, such as 'resnet50_*'")
    ] = "",
    recipes: Annotated[bool, typer.Option("--recipes", help="the recipes that `covpool train` knows by name")] = False,
) -> None:
    """Every pooling method, the blocks for the inside of backbones, and the networks of the paper."""
    if recipes:
        Console().print(_recipes())
        return
    if models:
        names = covpool.list_models(models)
        if not names:
            raise CovpoolError(f"no model matches {models!r}; `covpool list` shows how names are made")
        typer.echo("\n".join(names))
        return
    console = Console()
    console.print(_pools())
    console.print(_blocks())
    console.print(_networks())


def _pools() -> Table:
    table = Table(title="Pools: covpool.create_pool(name, in_features, **options)")
    for heading in ("name", "method and paper", "order", "size", "cost per image"):
        table.add_column(heading, overflow="fold")
    for name in covpool.list_pools():
        info = covpool.pool_info(name)
        table.add_row(name, f"{info.title}\n[dim]{_short(info.paper)}[/]", info.order, info.size, info.cost)
    return table


def _short(paper: str) -> str:
    """The first author and the venue.

    >>> _short("Lin et al., Bilinear CNN Models for Fine-grained Visual Recognition, ICCV 2015")
    'Lin et al., ICCV 2015'
    """
    parts = paper.partition(";")[0].split(", ")
    return f"{parts[0]}, {parts[-1]}"


def _blocks() -> Table:
    table = Table(title="Blocks: covpool.insert(backbone, name, **options), or by name as in resnet50+se")
    for heading in ("name", "method", "place", "parameters"):
        table.add_column(heading, overflow="fold")
    for name in covpool.list_blocks():
        info = covpool.block_info(name)
        table.add_row(name, info.title, info.place, info.parameters)
    return table


def _recipes() -> Table:
    table = Table(
        title="Recipes: covpool train NAME data.root=FOLDER",
        caption=f"a data set is laid over one as in finetune+cub: {', '.join(list_sets())}",
    )
    table.add_column("name", overflow="fold")
    table.add_column("about", overflow="fold")
    for name in list_recipes():
        table.add_row(name, escape(read_recipe(name).about))
    return table


def _networks() -> Table:
    table = Table(
        title="The paper's networks: covpool.create_model(name)",
        caption=f"<network> is the original, <network>_modified has its last down-sampling removed, and "
        f"<network>_<pool>_<representation> has one of {', '.join(POOLS)}, as in resnet50_isqrt_32k",
    )
    table.add_column("network")
    table.add_column("representations", overflow="fold")
    for network in BASES:
        prefix = f"{network}_{POOLS[0]}_"
        table.add_row(network, ", ".join(name.removeprefix(prefix) for name in covpool.list_models(f"{prefix}*")))
    return table
