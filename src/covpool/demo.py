"""A first look at covariance pooling on real pictures, with no download and no training.

Two photographs that come with scikit-learn are filtered by a fixed bank of oriented derivatives and cut into tiles.
Each pool describes the tiles; a tile's nearest neighbour among the others should come from the same column of the same
picture. The plot shows the eigenvalues of one picture's covariance before and after normalisation, and where in the
picture a change of the features would change the pooled vector most.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import covpool
from covpool._check import require
from covpool.ops import covariance, powm_eigh, sqrtm_newton_schulz

TILE = 80  # pixels
POOLS = ("avg", "max", "gem", "cov", "mpn", "isqrt", "gaussian")


@dataclass(frozen=True)
class Row:
    """How one pool did."""

    pool: str
    out_features: int
    milliseconds: float
    retrieval: float


def run_demo(out: Path) -> tuple[list[Row], Path]:
    """Describe the tiles of two pictures with every pool; returns the rows of the table and the plot's path."""
    pictures = _pictures()
    features = [_filter_bank(picture) for picture in pictures]
    tiles, labels = _tiles(features)
    rows = [_row(name, tiles, labels) for name in POOLS]
    out.mkdir(parents=True, exist_ok=True)
    path = out / "demo.png"
    _plot(pictures[0], features[0], path)
    return rows, path


def _pictures() -> list[Tensor]:
    """The two photographs, (3, h, w) in [0, 1]."""
    images = require("sklearn.datasets", "plots").load_sample_images().images
    return [torch.from_numpy(image.copy()).permute(2, 0, 1).float() / 255 for image in images]


def _filter_bank(picture: Tensor) -> Tensor:
    """Responses (64, h, w) of Gaussian derivatives: 4 scales, 8 orientations, edges and bars, half-rectified."""
    grey = picture.mean(0, keepdim=True).unsqueeze(0)
    radius = 12
    y, x = torch.meshgrid(*(2 * [torch.arange(-radius, radius + 1.0)]), indexing="ij")
    kernels = []
    for sigma in (1.0, 1.6, 2.6, 4.2):
        gauss = torch.exp(-(x**2 + y**2) / (2 * sigma**2))
        for angle in torch.arange(8) * torch.pi / 8:
            u = (x * angle.cos() + y * angle.sin()) / sigma
            kernels += [u * gauss, (u**2 - 1) * gauss]
    bank = torch.stack(kernels).unsqueeze(1)
    bank = bank - bank.mean((-2, -1), keepdim=True)
    bank = bank / bank.abs().sum((-2, -1), keepdim=True)
    padded = torch.nn.functional.pad(grey, 4 * [radius], mode="replicate")  # zeros would make edges of the borders
    return torch.nn.functional.conv2d(padded, bank)[0].relu()


def _tiles(features: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Tiles (b, 64, TILE / 4, TILE / 4) of all pictures and a label for each column of each picture."""
    tiles, labels = [], []
    for index, feature in enumerate(features):
        cut = feature.unfold(1, TILE, TILE).unfold(2, TILE, TILE)[..., ::4, ::4]  # (64, rows, columns, ., .)
        rows, columns = cut.shape[1:3]
        tiles.append(cut.permute(1, 2, 0, 3, 4).flatten(0, 1))
        labels.append((torch.arange(columns) + 100 * index).repeat(rows))
    return torch.cat(tiles), torch.cat(labels)


def _row(name: str, tiles: Tensor, labels: Tensor) -> Row:
    pool = covpool.create_pool(name, tiles.shape[1], normalize="l2").eval()
    x = tiles.clone().requires_grad_()
    start = time.perf_counter()
    z = pool(x)
    z.square().sum().backward()
    milliseconds = (time.perf_counter() - start) * 1e3
    similarity = (z @ z.T).detach().fill_diagonal_(-torch.inf)
    found = labels[similarity.argmax(1)] == labels
    return Row(name, pool.out_features, milliseconds, float(found.float().mean()))


def _plot(picture: Tensor, features: Tensor, path: Path) -> None:
    plt = require("matplotlib.pyplot", "plots")
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    _plot_spectra(axes[0], features)
    axes[1].imshow(picture.permute(1, 2, 0).numpy())
    axes[1].set_title("the picture")
    axes[2].imshow(_sensitivity(features).numpy(), cmap="magma")
    axes[2].set_title("|d z / d features| under iSQRT-COV")
    for axis in axes[1:]:
        axis.set_axis_off()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _plot_spectra(axis: Any, features: Tensor) -> None:
    sigma = covariance(features.flatten(1).T.double())
    spectra = {
        "covariance": sigma,
        "exact square root (MPN-COV)": powm_eigh(sigma, 0.5),
        "Newton-Schulz, N = 3": sqrtm_newton_schulz(sigma, iterations=3),
        "Newton-Schulz, N = 5 (iSQRT-COV)": sqrtm_newton_schulz(sigma),
    }
    for label, matrix in spectra.items():
        eigenvalues = torch.linalg.eigvalsh(matrix).flip(0)
        axis.semilogy(range(1, len(eigenvalues) + 1), (eigenvalues / eigenvalues[0]).numpy(), label=label)
    axis.set_xlabel("eigenvalue number")
    axis.set_ylabel("relative to the largest")
    axis.set_title("what normalisation does to the spectrum")
    axis.legend()


def _sensitivity(features: Tensor) -> Tensor:
    x = features[None, :, ::4, ::4].clone().requires_grad_()
    covpool.create_pool("isqrt", x.shape[1])(x).norm().backward()
    assert x.grad is not None
    return x.grad[0].norm(dim=0)
