"""`covpool list` and `covpool show NAME`."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import covpool


def list_all() -> None:
    """Every pooling method: order, representation size, cost, paper."""
    table = Table(title="Pools: covpool.create_pool(name, in_features, **options)")
    for heading in ("name", "method", "order", "size", "cost per image", "paper"):
        table.add_column(heading, overflow="fold")
    for name in covpool.list_pools():
        info = covpool.pool_info(name)
        table.add_row(name, info.title, info.order, info.size, info.cost, info.paper)
    Console().print(table)


def show(name: Annotated[str, typer.Argument(help="a name from `covpool list`")]) -> None:
    """One pooling method: paper, formula, size, cost, options."""
    try:
        info = covpool.pool_info(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    table = Table(title=f"{info.name}: {info.title}", show_header=False)
    for key in ("paper", "order", "formula", "size", "cost"):
        table.add_row(key, getattr(info, key))
    table.add_row("options", ", ".join(f"{key}={value!r}" for key, value in info.options.items()) or "none of its own")
    table.add_row("example", f'covpool.create_pool("{name}", in_features=512, reduce_to=256)')
    Console().print(table)
