"""`covpool show NAME`: everything about one pool, block, network of the paper, or recipe."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

import covpool
from covpool._errors import CovpoolError, did_you_mean
from covpool._registry import documented_options
from covpool.cli._options import Device, chosen_device
from covpool.cli._output import UNKNOWN, Cell, facts, table

if TYPE_CHECKING:
    from covpool.models import Efficiency


def command(
    name: str,
    *,
    measure: bool = True,
    device: Device = "",
    batch: int = 1,
) -> None:
    """Show a pool or block (paper, formula, cost, options), a recipe (settings), or a model beside the paper's numbers.

    Args:
        name: Name of a pool, block or model, which `covpool list` shows, or a recipe, as for `covpool train`.
        measure: Measure the time and memory of a model on this machine.
        batch: Number of images per batch in the measurement.
    """
    console = Console()
    if name in covpool.list_pools():
        example = f'covpool.create_pool("{name}", in_features=512, reduce_to=256)'
        console.print(_method(covpool.pool_info(name), ("paper", "order", "formula", "size", "cost"), example))
    elif name in covpool.list_blocks():
        example = f'covpool.insert(timm.create_model("resnet50"), "{name}")'
        console.print(_method(covpool.block_info(name), ("paper", "formula", "place", "parameters"), example))
    elif name in covpool.list_models():
        from covpool.models import efficiency

        place = chosen_device(device)
        with console.status(f"building {name}" + (" and measuring it" if measure else "")):
            found = efficiency(name, measure=measure, device=place, batch=batch)
        console.print(_model(found))
    else:
        from covpool.recipe import list_recipes

        recipes = list_recipes()
        if name.partition("+")[0] in recipes or Path(name).suffix == ".toml":
            console.print(_recipe(name))
            return
        hint = did_you_mean(name, [*covpool.list_pools(), *covpool.list_blocks(), *covpool.list_models(), *recipes])
        raise CovpoolError(
            f"there is no pool, block, model or recipe named {name!r}{hint}: `covpool list` shows all names, and "
            "`covpool list --recipes` those of recipes"
        )


def _method(info: "covpool.PoolInfo | covpool.BlockInfo", keys: tuple[str, ...], example: str) -> Table:
    """What a pool or block is, and its options with their defaults and meanings."""
    rows: list[tuple[str, Cell]] = [(key, getattr(info, key)) for key in keys]
    for key, value in info.options.items():
        rows.append(("option", Text.assemble(f"{key}={value!r}  ", (info.meanings[key], "dim"))))
    return facts([*rows, ("example", example)], title=f"{info.name}: {info.title}")


def _recipe(name: str) -> Table:
    """The settings that a recipe changes, and what each of them means."""
    from covpool.recipe import Recipe, flat_settings, read_recipe, setting_meaning

    recipe, defaults = read_recipe(name), dict(flat_settings(Recipe()))
    rows: list[tuple[str, Cell]] = [("about", recipe.about)]
    for key, value in flat_settings(recipe):
        if key not in ("name", "about") and value != defaults.get(key):
            meaning = setting_meaning(key) or _pool_option(recipe.pool.name, key.removeprefix("pool."))
            rows.append((key, Text.assemble(f"{value}  ", (meaning, "dim"))))
    return facts([*rows, ("example", f"covpool train {name} --data FOLDER")], title=f"recipe {recipe.name}")


def _pool_option(pool: str, option: str) -> str:
    """What an option does: one of this pool, or one that all pools have. Empty for any other setting."""
    own = covpool.pool_info(pool).meanings if pool in covpool.list_pools() else {}
    return own.get(option) or documented_options([option], [covpool.pools.Pool])[option]


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
