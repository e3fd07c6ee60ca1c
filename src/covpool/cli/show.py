"""`covpool show NAME`: all about one pool, one block, or one network of the paper."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import covpool
from covpool._check import did_you_mean
from covpool._errors import CovpoolError
from covpool.cli.device_option import chosen_device
from covpool.models import Efficiency, efficiency


def show(
    name: Annotated[str, typer.Argument(help="a name from `covpool list`")],
    measure: Annotated[bool, typer.Option(help="time a model and watch its memory on this machine")] = True,
    device: Annotated[str, typer.Option(help="to measure on; the GPU if there is one")] = "",
    batch: Annotated[int, typer.Option(help="images at a time")] = 1,
) -> None:
    """A pool or block: paper, formula, cost, options. A model: its row of the paper's Appendix III and ours."""
    console = Console()
    if name in covpool.list_pools():
        console.print(_pool(name))
    elif name in covpool.list_blocks():
        console.print(_block(name))
    elif name in covpool.list_models():
        place = chosen_device(device)
        with console.status(f"building {name}" + (" and measuring it" if measure else "")):
            row = efficiency(name, measure=measure, device=place, batch=batch)
        console.print(_model(row))
    else:
        hint = did_you_mean(name, [*covpool.list_pools(), *covpool.list_blocks(), *covpool.list_models()])
        raise CovpoolError(f"there is no pool, block or model named {name!r}{hint}; `covpool list` has all")


def _pool(name: str) -> Table:
    info = covpool.pool_info(name)
    table = Table(title=f"{info.name}: {info.title}", show_header=False)
    for key in ("paper", "order", "formula", "size", "cost"):
        table.add_row(key, escape(getattr(info, key)))
    table.add_row("options", escape(_options(info.options)) or "none of its own")
    table.add_row("example", f'covpool.create_pool("{name}", in_features=512, reduce_to=256)')
    return table


def _block(name: str) -> Table:
    info = covpool.block_info(name)
    table = Table(title=f"{info.name}: {info.title}", show_header=False)
    for key in ("paper", "formula", "place", "parameters"):
        table.add_row(key, escape(getattr(info, key)))
    table.add_row("options", escape(_options(info.options)))
    table.add_row("example", f'covpool.insert(timm.create_model("resnet50"), "{name}")')
    return table


def _options(options: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in options.items())


def _model(row: Efficiency) -> Table:
    where = f"{row.device}, batch {row.batch}"
    table = Table(title=f'covpool.create_model("{row.name}")')
    table.add_column("")
    table.add_column("paper, Appendix III", justify="right")
    table.add_column("covpool", justify="right")
    paper = row.paper
    table.add_row("parameters", paper.parameters if paper else "-", f"{row.parameters:,}")
    table.add_row("multiply-adds, the paper's count", f"{paper.gflops} G" if paper else "-", f"{row.gmacs_paper:.3f} G")
    table.add_row("multiply-adds, as we run it", "-", f"{row.gmacs:.3f} G")
    table.add_row("representation", "-", f"{row.representation:,}")
    table.add_row(f"time per image (ours: {where})", f"{paper.milliseconds:.2f} ms" if paper else "-", _time(row))
    table.add_row(f"memory (ours: {where})", paper.memory if paper else "-", _memory(row))
    if paper:
        table.add_row("top-1 / top-5 error, 1 crop", f"{paper.top1_error:.2f} / {paper.top5_error:.2f} %", "-")
    return table


def _time(row: Efficiency) -> str:
    return "not measured" if row.milliseconds is None else f"{row.milliseconds:.2f} ms"


def _memory(row: Efficiency) -> str:
    return "not measured" if row.memory is None else f"{row.memory:.0f} MiB"
