"""Maps of the positions, and the channels or pairs of channels, that decided for the predicted class."""

from dataclasses import dataclass
from math import isqrt

import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from covpool._errors import CovpoolError
from covpool.data.pipeline import EvalBatches
from covpool.diagnostics import attribute
from covpool.engine import infer, select_rows
from covpool.engine.evaluation import LoadedCheckpoint
from covpool.report._mistakes import as_data_uri
from covpool.report._open import OpenRun
from covpool.report._section import required

SHOWN, PARTS = 4, 3  # images, and channels or pairs of channels of each
FOR, AGAINST = (230, 159, 0), (0, 114, 178)  # orange and blue, which color-blind eyes tell apart


@dataclass(frozen=True)
class AttributionMap:
    """A test image and what its score comes from.

    Attributes:
        source: The image under its map, as a data URI.
        predicted: Name of the predicted class.
        score: Score of that class, without the bias of the classifier.
        parts: The channels, or pairs of channels, that contribute most, with their contributions.
    """

    source: str
    predicted: str
    score: float
    parts: list[tuple[str, float]]


def attribution_maps(run: OpenRun) -> list[AttributionMap]:
    """Map images evenly spaced in the test set of a run."""
    checkpoint, images = required(run.checkpoint), required(run.data).test
    numbers = torch.linspace(0, len(images) - 1, min(SHOWN, len(images))).long().tolist()
    data = run.recipe.data.changed(broken="skip", cache="none", workers=0)
    batches = EvalBatches(images.select(numbers), checkpoint.augment, data, batch_size=1, device=run.device)
    network = checkpoint.network

    def forward(x: Tensor) -> AttributionMap:
        features = network.forward_features(x)
        label = network.forward_head(network.forward_pool(features)).argmax(1)
        found = attribute(network, features, label)
        first = features[0] if isinstance(features, tuple) else features
        grid = found.positions.reshape(1, 1, *_grid(first, found.positions.shape[1])).float()
        return AttributionMap(
            as_data_uri(_overlay(_pixels(x[0], checkpoint), grid, x.shape[-2:])),
            images.classes[int(label)],
            float(found.scores),
            _largest(found.parts[0]),
        )

    found = [one.outputs[0] for one in infer(network, select_rows(batches, lambda batch: ~batch.broken), forward)]
    if not found:
        raise CovpoolError("no image of the sample could be read")
    return found


def _grid(features: Tensor, n: int) -> tuple[int, int]:
    """The height and width of the positions."""
    height, width = features.shape[-2:] if features.ndim == 4 else (isqrt(n), isqrt(n))
    if height * width != n:
        raise CovpoolError(f"the {n} positions of this network are not a grid, so that no map can be drawn")
    return height, width


def _pixels(x: Tensor, checkpoint: LoadedCheckpoint) -> Tensor:  # (3, h, w) -> (3, h, w)
    """The input of the network as gray values in [0, 255]."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (checkpoint.augment.mean, checkpoint.augment.std))
    gray = (x.detach().float().cpu() * std + mean).mean(0, keepdim=True)
    return gray.clamp(0, 1).mul(255).expand(3, -1, -1)


def _overlay(pixels: Tensor, grid: Tensor, size: torch.Size) -> Image.Image:
    """Color an image by contributions: orange for the class, blue against it, the stronger the larger."""
    shown = interpolate(grid, size=tuple(size), mode="bilinear")[0] / grid.abs().max().clamp(min=1e-30)
    color = torch.where(shown > 0, torch.tensor(FOR)[:, None, None], torch.tensor(AGAINST)[:, None, None])
    share = 0.75 * shown.abs().clamp(max=1)
    mixed = (1 - share) * pixels + share * color
    return Image.fromarray(mixed.permute(1, 2, 0).byte().numpy())


def _largest(parts: Tensor) -> list[tuple[str, float]]:
    """The channels (c,), or pairs of channels (c, c), with the largest contributions, by size."""
    is_pairs = parts.ndim == 2
    if is_pairs:
        parts = (parts + parts.mT).triu()
        parts.diagonal().div_(2)
    each = parts.flatten()
    places = each.abs().topk(min(PARTS, len(each))).indices.tolist()
    names = ["channels {}, {}".format(*divmod(p, len(parts))) if is_pairs else f"channel {p}" for p in places]
    return list(zip(names, each[places].tolist(), strict=True))
