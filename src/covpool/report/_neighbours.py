"""The test images whose representations are most similar to that of an image."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from covpool._errors import CovpoolError
from covpool.data import Images
from covpool.data.pipeline import EvalBatches
from covpool.engine import infer, select_rows
from covpool.engine.evaluation import represent
from covpool.report._mistakes import data_uri
from covpool.report._open import OpenRun
from covpool.report._section import required

SHOWN, NEAREST, SEARCHED = 4, 4, 200  # images, neighbors of each, and images searched for all of them
SIDE = 150  # largest side of an image in the page, in pixels


@dataclass(frozen=True)
class ShownNeighbour:
    """A test image, its class, and the cosine between its representation and that of the image it is similar to."""

    source: str
    name: str
    class_name: str
    cosine: float


@dataclass(frozen=True)
class Neighbourhood:
    """An image and its nearest neighbors, the nearest first."""

    image: ShownNeighbour
    nearest: list[ShownNeighbour]


def find_neighbours(run: OpenRun) -> list[Neighbourhood]:
    """Find the nearest neighbors of images evenly spaced in the test set, by the cosine of representations.

    Only images with similar scores are searched, so that most of a large test set need not be opened.
    """
    predictions, checkpoint = required(run.predictions), required(run.checkpoint)
    images = required(run.data).test
    chosen = torch.linspace(0, len(images) - 1, min(SHOWN, len(images))).long()
    searched = _with_similar_scores(predictions.logits, chosen)
    data = run.recipe.data.changed(broken="skip", cache="none", workers=0)
    batches = EvalBatches(images.select(searched.tolist()), checkpoint.augment, data, batch_size=16, device=run.device)
    network = checkpoint.network

    def forward(x: Tensor) -> Tensor:
        return normalize(represent(network, x).float())

    found = list(infer(network, select_rows(batches, lambda batch: ~batch.broken), forward))
    if not found:
        raise CovpoolError("no image of the sample could be read")
    numbers = searched[torch.cat([one.batch.index for one in found])]
    vectors = torch.cat([one.outputs[0].cpu() for one in found])
    cosines = vectors @ vectors.mT
    rows = [int((numbers == i).nonzero()) for i in chosen.tolist() if (numbers == i).any()]
    return [_neighbourhood(images, numbers, cosines[row], row) for row in rows]


def _with_similar_scores(logits: Tensor, chosen: Tensor) -> Tensor:
    """The numbers of the chosen images and of those with the most similar probabilities; of all if they are few."""
    if len(logits) <= SEARCHED:
        return torch.arange(len(logits))
    probabilities = normalize(logits.double().softmax(1))
    similar = (probabilities[chosen] @ probabilities.mT).topk(SEARCHED // SHOWN).indices
    return torch.cat([chosen, similar.flatten()]).unique()


def _neighbourhood(images: Images, numbers: Tensor, cosines: Tensor, row: int) -> Neighbourhood:
    nearest = [i for i in cosines.argsort(descending=True, stable=True).tolist() if i != row][:NEAREST]

    def describe(i: int) -> ShownNeighbour:
        number = int(numbers[i])
        target = images.targets[number]
        name = "/".join(images.paths[number].parts[-2:])
        label = images.classes[target] if target >= 0 else "class unknown"
        return ShownNeighbour(data_uri(images, number, SIDE), name, label, float(cosines[i]))

    return Neighbourhood(describe(row), [describe(i) for i in nearest])
