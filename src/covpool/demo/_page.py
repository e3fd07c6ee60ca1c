"""The page of the demo: one file that needs no other."""

import base64
from collections.abc import Sequence
from pathlib import Path

from covpool.demo._pictures import PARTS, PICTURES, SIZE
from covpool.demo._plots import plots_for_page
from covpool.demo._results import PoolResult, verdict
from covpool.io import replacing
from covpool.recipe import Recipe, to_toml
from covpool.report import render_page

TEMPLATE = Path(__file__).parent / "demo.html.jinja"
EXAMPLES = 8  # tiles of a part that are shown of every photograph


def write_page(path: Path, rows: Sequence[PoolResult], recipe: Recipe) -> None:
    """Write the page.

    Args:
        path: of the file.
        rows: of `gather`.
        recipe: of the last training, whose data are the tiles.
    """
    tiles = Path(recipe.data.root)
    values = {
        "rows": rows,
        "verdict": verdict,
        "seeds": len(rows[0].seeds),
        "classes": [picture.name for picture in PICTURES],
        "counts": {part: len(list((tiles / part).glob("*/*.png"))) for part in PARTS},
        "samples": [
            (p.name, _examples(tiles / "train" / p.name), _examples(tiles / "test" / p.name)) for p in PICTURES
        ],
        "plots": plots_for_page(rows),
        "size": SIZE,
        "positions": rows[0].spectra.positions,
        "channels": rows[0].spectra.before.shape[1],
        "recipe": recipe,
        "toml": to_toml(recipe),
        "pictures": PICTURES,
    }
    with replacing(path) as partial:
        partial.write_text(render_page(TEMPLATE, values), encoding="utf-8")


def _examples(folder: Path) -> list[str]:
    """Some tiles, evenly chosen, as what an <img> can hold."""
    paths = sorted(folder.glob("*.png"))
    chosen = [paths[i * len(paths) // EXAMPLES] for i in range(EXAMPLES)]
    return ["data:image/png;base64," + base64.b64encode(path.read_bytes()).decode() for path in chosen]
