"""The page of the demo, a single file without links to others."""

import base64
from collections.abc import Sequence
from pathlib import Path

from covpool.demo._plots import plots_for_page
from covpool.demo._results import PoolResult, verdict
from covpool.demo._tiles import PHOTOGRAPHS, SIZE, SPLITS
from covpool.io import replacing
from covpool.recipe import Recipe, to_toml
from covpool.report import render_page

TEMPLATE = Path(__file__).parent / "demo.html.jinja"
EXAMPLES = 8  # tiles shown per photograph and split


def write_page(path: Path, results: Sequence[PoolResult], recipe: Recipe) -> None:
    """Write the page.

    Args:
        path: File to write.
        results: Results of `gather`.
        recipe: Recipe of the last run; its data are the tiles.
    """
    tiles = Path(recipe.data.root)
    values = {
        "results": results,
        "verdict": verdict,
        "seeds": len(results[0].seeds),
        "classes": [photograph.name for photograph in PHOTOGRAPHS],
        "counts": {split: len(list((tiles / split).glob("*/*.png"))) for split in SPLITS},
        "samples": [
            (p.name, _examples(tiles / "train" / p.name), _examples(tiles / "test" / p.name)) for p in PHOTOGRAPHS
        ],
        "plots": plots_for_page(results),
        "size": SIZE,
        "positions": results[0].spectra.positions,
        "channels": results[0].spectra.before.shape[1],
        "recipe": recipe,
        "toml": to_toml(recipe),
        "photographs": PHOTOGRAPHS,
    }
    with replacing(path) as partial:
        partial.write_text(render_page(TEMPLATE, values), encoding="utf-8")


def _examples(folder: Path) -> list[str]:
    """Some tiles at even distances, as data URLs."""
    paths = sorted(folder.glob("*.png"))
    chosen = [paths[i * len(paths) // EXAMPLES] for i in range(EXAMPLES)]
    return ["data:image/png;base64," + base64.b64encode(path.read_bytes()).decode() for path in chosen]
