"""`covpool demo`: pooling and its gradients at work on a real picture."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from covpool.demo import run_demo


def demo(out: Annotated[Path, typer.Option(help="where the plot goes")] = Path("demo_out")) -> None:
    """Pool a real picture with every method, look at the spectra and at where the representation is sensitive."""
    rows, plot = run_demo(out)
    table = Table(title="Tiles of two photographs, 64 fixed filters, no training")
    for heading in ("pool", "numbers kept", "ms forward + backward", "nearest tile from the same place"):
        table.add_column(heading, justify="left" if heading == "pool" else "right")
    for row in rows:
        table.add_row(row.pool, str(row.out_features), f"{row.milliseconds:.1f}", f"{row.retrieval:.0%}")
    console = Console()
    console.print(table)
    console.print(f"plot: {plot}")
