"""`covpool show NAME`: everything about one pool, one block, or one network of the paper."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

import covpool
from covpool._errors import CovpoolError, did_you_mean
from covpool.cli._options import Device, chosen_device
from covpool.cli._output import UNKNOWN, facts, table

if TYPE_CHECKING:
    from covpool.models import Efficiency


def command(
    name: str,
    *,
    measure: bool = True,
    device: Device = "",
    batch: int = 1,
) -> None:
    """Show a pool or block (paper, formula, cost, options) or a model beside its row in the paper's Appendix III.

    Args:
        name: Name of a pool, block or model; `covpool list` shows them all.
        measure: Measure the time and memory of a model on this machine.
        batch: Number of images per batch in the measurement.
    """
    console = Console()
    if name in covpool.list_pools():
        console.print(_pool(name))
    elif name in covpool.list_blocks():
        console.print(_block(name))
    elif name in covpool.list_models():
        from covpool.models import efficiency

        place = chosen_device(device)
        with console.status(f"building {name}" + (" and measuring it" if measure else "")):
            found = efficiency(name, measure=measure, device=place, batch=batch)
        console.print(_model(found))
    else:
        hint = did_you_mean(name, [*covpool.list_pools(), *covpool.list_blocks(), *covpool.list_models()])
        raise CovpoolError(f"there is no pool, block or model named {name!r}{hint}: `covpool list` shows all names")


def _pool(name: str) -> Table:
    info = covpool.pool_info(name)
    rows = [(key, getattr(info, key)) for key in ("paper", "order", "formula", "size", "cost")]
    example = f'covpool.create_pool("{name}", in_features=512, reduce_to=256)'
    rows += [("options", _options(info.options) or "none of its own"), ("example", example)]
    return facts(rows, title=f"{info.name}: {info.title}")


def _block(name: str) -> Table:
    info = covpool.block_info(name)
    rows = [(key, getattr(info, key)) for key in ("paper", "formula", "place", "parameters")]
    example = f'covpool.insert(timm.create_model("resnet50"), "{name}")'
    rows += [("options", _options(info.options)), ("example", example)]
    return facts(rows, title=f"{info.name}: {info.title}")


def _options(options: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in options.items())


def _model(found: "Efficiency") -> Table:
    here, paper = f"covpool on {found.device}, batch {found.batch}", found.paper
    time = "not measured" if found.milliseconds is None else f"{found.milliseconds:.2f} ms"
    memory = "not measured" if found.memory is None else f"{found.memory:.0f} MiB"
    rows = [
        ("parameters", paper.parameters if paper else UNKNOWN, f"{found.parameters:,}"),
        (
            "multiply-adds, counted as in the paper",
            f"{paper.gflops} G" if paper else UNKNOWN,
            f"{found.gmacs_paper:.3f} G",
        ),
        ("multiply-adds in covpool", UNKNOWN, f"{found.gmacs:.3f} G"),
        ("representation", UNKNOWN, f"{found.representation:,}"),
        (f"time per image ({here})", f"{paper.milliseconds:.2f} ms" if paper else UNKNOWN, time),
        (f"memory ({here})", paper.memory if paper else UNKNOWN, memory),
    ]
    if paper:
        errors = f"{paper.top1_error:.2f} / {paper.top5_error:.2f} %"
        rows.append(("top-1 / top-5 error, one crop", errors, UNKNOWN))
    headings = ("", "paper, Appendix III", "covpool")
    return table(headings, rows, title=f'covpool.create_model("{found.name}")')
