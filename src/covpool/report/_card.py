"""Publishing a run on the Hugging Face Hub, with a model card."""

import tempfile
from pathlib import Path
from typing import Any

from covpool._errors import require
from covpool._figures import COLORS, new_figure
from covpool.diagnostics import Spectra
from covpool.engine.training import find_checkpoint
from covpool.io import HUB_FILE
from covpool.recipe import to_toml
from covpool.report._facts import about_network, metrics, versions
from covpool.report._fit import fit_section
from covpool.report._open import open_run
from covpool.report._section import required
from covpool.report._write import render_page

CARD, PLOT = Path(__file__).parent / "card.md.jinja", "spectrum.png"


def push_to_hub(run: str | Path, repository: str, *, private: bool = False, license: str = "") -> str:
    """Upload the result of a run to the Hugging Face Hub: its checkpoint, a model card and a plot of its spectra.

    The card states the data, the recipe, and the accuracy on the test set with its intervals. Log in first, with
    `hf auth login`. `covpool.load("hf://owner/name")` loads the network.

    Args:
        run: Folder of a run or of a fit.
        repository: Name of the repository, "owner/name". It is created if it does not exist.
        private: Whether a new repository is private.
        license: Name of the license that you give the weights, such as "apache-2.0".

    Returns:
        The address of the repository.
    """
    hub = require("huggingface_hub", "models")
    with tempfile.TemporaryDirectory() as folder:
        write_card(Path(run), Path(folder), repository, license)
        hub.create_repo(repository, private=private, exist_ok=True)
        files = {find_checkpoint(Path(run)): HUB_FILE} | {path: path.name for path in Path(folder).iterdir()}
        changes = [hub.CommitOperationAdd(name, str(path)) for path, name in files.items()]
        hub.create_commit(repository, changes, commit_message="Upload the network and its card")
    return f"hf://{repository}"


def write_card(run: Path, folder: Path, repository: str, license: str = "") -> None:
    """Write the model card of a run, README.md, and the plot of its spectra into a folder."""
    opened = open_run(run)
    recipe, evaluation, spectra = opened.recipe, opened.evaluation, opened.spectra
    checkpoint = required(opened.checkpoint)
    weights = Path(recipe.init.weights).name  # folders are private
    shown = recipe.changed(about="", source="", data={"root": ""}, init={"weights": weights})
    if spectra.value is not None:
        _plot(spectra.value, folder / PLOT)
    values: dict[str, Any] = {
        "repository": repository,
        "license": license,
        "recipe": shown,
        "fit": fit_section(checkpoint.about),
        "folder": Path(recipe.data.root).name,
        "split": checkpoint.about.data,
        "classes": len(checkpoint.about.class_names or ()),
        "evaluation": evaluation,
        "metrics": metrics(evaluation.value) if evaluation.value else [],
        "network": about_network(checkpoint.network, shown),
        "plot": PLOT if spectra.value is not None else "",
        "versions": versions(checkpoint.about.versions)[:-1],
        "toml": to_toml(shown, defaults=False),
    }
    (folder / "README.md").write_text(render_page(CARD, values))


def _plot(spectra: Spectra, path: Path) -> None:
    """Plot the median eigenvalues over the largest, by rank, before and after the pool."""
    figure = new_figure(6, 3.6)
    axes = figure.subplots()
    for color, label, values in zip(COLORS, ("before", "after"), (spectra.before, spectra.after), strict=False):
        if values is not None:
            middle = (values / values[:, :1]).median(0).values
            shown = middle > 1e-7
            axes.plot(range(1, int(shown.sum()) + 1), middle[shown].tolist(), color=color, label=f"{label} the pool")
    axes.set_yscale("log")
    axes.set_xlabel("rank")
    axes.set_ylabel("eigenvalue over the largest, median")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)
