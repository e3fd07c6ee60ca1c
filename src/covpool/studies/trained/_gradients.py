"""The gradients in the features with and without post-compensation, on real images."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from covpool._progress import OnProgress, ignore
from covpool.data import Augment, Data, Images
from covpool.data.pipeline import EvalBatches
from covpool.data.sets import open_data
from covpool.engine import infer, with_progress
from covpool.models import Backbone, make_features, make_head

GRADIENTS = "gradients"  # suite of the records
BACKBONE = "torchvision/mobilenet_v2"
IMAGES, BATCH, SIZE, WIDTH = 256, 64, 224, 256
SEED = 0


def measure_gradients(
    name: str, data: Data, *, weights: str, device: torch.device, on_progress: OnProgress = ignore
) -> dict[str, Any]:
    """Compare the gradients of the cross-entropy in the features of some training images.

    The backbone is pre-trained; reduction, pool and classifier are new, and the same in both cases.

    Args:
        name: Name of the data set in the record.
        data: The data set.
        weights: File with the weights of the backbone; "" downloads them.
        device: Device of the network.
        on_progress: Called after every batch.

    Returns:
        A record with the ratio of the two norms for every batch, and the root mean square of the gradient of both.
    """
    images = _draw(open_data(data).train)
    backbone = make_features(BACKBONE, pretrained=not weights, weights=weights or None)
    assert isinstance(backbone, Backbone)
    augment = Augment(size=SIZE).resolved(backbone.input_settings)
    batches = EvalBatches(images, augment, data, batch_size=BATCH, device=device)
    found: dict[bool, list[Tensor]] = {True: [], False: []}
    for one in infer(backbone.to(device), with_progress(batches, "training images", on_progress)):
        for postcomp, gradients in found.items():
            gradients.append(_gradient(one.outputs[0], one.batch.y, len(images.classes), postcomp))
    ratios = [float(without.norm() / with_.norm()) for with_, without in zip(found[True], found[False], strict=True)]
    sizes = {postcomp: float(torch.cat(gradients).square().mean().sqrt()) for postcomp, gradients in found.items()}
    return {
        "suite": GRADIENTS,
        "data": name,
        "images": len(images),
        "ratios": ratios,
        "rms_with": sizes[True],
        "rms_without": sizes[False],
    }


def _draw(images: Images) -> Images:
    """Images drawn at random from the whole training set."""
    rows = torch.randperm(len(images), generator=torch.Generator().manual_seed(SEED))[:IMAGES].tolist()
    return Images([images.paths[row] for row in rows], [images.targets[row] for row in rows], images.classes)


def _gradient(features: Tensor, y: Tensor, classes: int, postcomp: bool) -> Tensor:
    """The gradient of the mean cross-entropy in features (b, c, h, w)."""
    with torch.random.fork_rng([]):
        torch.manual_seed(SEED)
        pool, classifier = make_head("isqrt", (features.shape[1],), classes, reduce_to=WIDTH, postcomp=postcomp)
    head = torch.nn.Sequential(pool, classifier).to(features.device).train()
    with torch.enable_grad():
        x = features.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(cross_entropy(head(x), y), x)
    return gradient
