"""Draw docs/img/readme.png: from a feature map to the square root of its covariance, and accuracy against cost.

python docs/readme_figure.py --images FOLDER --weights mobilenet_v2-b0353104.pth
python docs/readme_figure.py                      (only the plots, from the records in results/)

The first command also writes the spectra to results/spectrum_cub200.jsonl.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor
from torchvision.models import mobilenet_v2
from torchvision.transforms import v2

import covpool
from covpool._records import environment
from covpool.diagnostics import pool_spectra
from covpool.studies.probe import plot_probe, read_results, summarize

ROOT = Path(__file__).parents[1]
SPECTRA, PROBE = ROOT / "results/spectrum_cub200.jsonl", ROOT / "results/probe_cub200_224.jsonl"
FIGURE, ALL_POOLS = ROOT / "docs/img/readme.png", ROOT / "docs/img/probe_cub200_224.png"
BLUE, ORANGE, GRAY = "#0072B2", "#D55E00", "#8A8A8A"  # also for color-blind eyes
SHOWN = 40  # channels of the matrices that are drawn
# Shifts of labels that would cover another one.
BESIDE = {
    "mpn": (-12, 8),
    "gaussian": (7, 2),
    "improved_bcnn": (-40, 8),
    "gem": (7, -4),
    "cov": (7, -8),
}
NAMED = ("avg", "max", "gem", "cov", "bcnn", "cbp", "isqrt", "mpn", "gaussian", "improved_bcnn", "netvlad")


def measure(images: Path, weights: Path) -> dict[str, Any]:
    """Compute the matrices of one image and the median spectra of all, with frozen MobileNetV2 and a PCA to 256."""
    backbone = mobilenet_v2()
    backbone.load_state_dict(torch.load(weights, weights_only=True))
    model = covpool.attach(backbone, "isqrt", num_classes=200, reduce_to=256, reduce_kind="linear")
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    steps = [v2.Resize(366), v2.CenterCrop(320), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    prepare = v2.Compose([*steps, v2.Normalize(mean, std)])
    files = sorted(images.iterdir())
    with torch.no_grad():
        x = torch.stack([prepare(Image.open(file).convert("RGB")) for file in files])
        features = torch.cat([model.eval().forward_features(part) for part in x.split(4)])
        model.pool.init_reduction([features])
        spectra = pool_spectra(model.pool, features)
        descriptors = model.pool.descriptors(features[:1])[:, :SHOWN]
        sigma = covpool.ops.covariance(descriptors[None])[0]
    return {
        "suite": "spectrum",
        **environment(torch.device("cpu"), 0),
        "command": f"python docs/readme_figure.py --images FOLDER --weights {weights.name}",
        "images": len(files),
        "shape": list(features.shape),
        "positions": spectra.positions,
        "before": _median(spectra.before),
        "after": _median(spectra.after),
        "descriptors": _rounded(descriptors[:: len(descriptors) // SHOWN][:SHOWN]),
        "covariance": _rounded(sigma),
        "root": _rounded(covpool.ops.powm_eigh(sigma[None], 0.5)[0]),
    }


def _median(values: Tensor | None) -> list[float]:
    assert values is not None
    return _rounded((values / values[:, :1]).median(0).values)


def _rounded(values: Tensor) -> Any:
    return json.loads(json.dumps(values.double().tolist()), parse_float=lambda text: float(f"{float(text):.4g}"))


def draw(found: dict[str, Any]) -> None:
    """Draw the figure from the record of the spectra and those of the probe."""
    figure = Figure(figsize=(9, 5.6), layout="constrained", facecolor="white")
    above, below = figure.subfigures(2, height_ratios=(1, 1.35))
    axes = above.subplots(1, 4, width_ratios=(1, 1, 1, 1.6))
    titles = ("feature map", "covariance", "its square root")
    labels = (("channels", "positions"), ("channels", "channels"), ("channels", "channels"))
    for panel, key, title, (x, y) in zip(axes, ("descriptors", "covariance", "root"), titles, labels, strict=False):
        values = torch.tensor(found[key])
        largest = float(values.abs().quantile(0.99))
        panel.imshow(values, cmap="PuOr_r", vmin=-largest, vmax=largest, interpolation="nearest")
        panel.set(title=title, xlabel=x, ylabel=y, xticks=[], yticks=[])
    for color, key in ((BLUE, "before"), (ORANGE, "after")):  # as in a report
        values = [value for value in found[key] if value > 1e-6]
        axes[3].plot(range(1, len(values) + 1), values, color=color, label=f"{key} the root")
    axes[3].set(yscale="log", title="eigenvalues over the largest", xlabel="rank")
    axes[3].legend(frameon=False)
    cost_panel = below.subplots()
    _draw_costs(cost_panel)
    for panel in (axes[3], cost_panel):
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, dpi=130)
    plot_probe(
        summarize(read_results(PROBE)), ALL_POOLS, "MobileNetV2, frozen, on CUB-200-2011, 224 pixels, NVIDIA H200"
    )


def _draw_costs(panel: Axes) -> None:
    """Draw the accuracy of all pools against their cost."""
    rows = [row for row in summarize(read_results(PROBE)) if row.group in ("best", "worse")]
    for row in sorted(rows, key=lambda row: row.pool in NAMED):  # a gray point hides no named one
        cost, top1 = 1e3 * (row.cost_per_image("busy_ms_per_batch") or 0), 100 * row.top1
        color = GRAY if row.pool not in NAMED else ORANGE if row.pool == "isqrt" else BLUE
        panel.plot([cost], [top1], marker="o", color=color, markersize=6)
        if row.pool in NAMED:
            panel.annotate(row.pool, (cost, top1), BESIDE.get(row.pool, (6, 3)), textcoords="offset points")
    others = sum(row.pool not in NAMED for row in rows)
    panel.plot([], [], "o", color=GRAY, label=f"{others} other pools")
    panel.legend(loc="lower right")
    panel.set(xscale="log", title="200 birds: accuracy in % against cost", xlabel="GPU microseconds per image")
    panel.margins(x=0.1, y=0.12)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--images", type=Path)
    options.add_argument("--weights", type=Path)
    chosen = options.parse_args()
    if chosen.images is not None:
        SPECTRA.write_text(json.dumps(measure(chosen.images, chosen.weights)) + "\n")
    draw(json.loads(SPECTRA.read_text().splitlines()[-1]))


if __name__ == "__main__":
    main()
