"""The fitted network: the frozen backbone with its last stride, the PCA, the pool, and the linear classifier."""

from torch import Tensor

import covpool
from covpool._progress import OnProgress
from covpool.data import Images, ResolvedAugment
from covpool.data.pipeline import EvalBatches
from covpool.engine import compute_scores, with_progress
from covpool.models import Backbone, Network
from covpool.studies.fit._compare import FittedPool
from covpool.studies.fit._settings import Fit


def build_network(settings: Fit, features: Backbone, fitted: FittedPool, classes: int) -> Network:
    """Build the fitted network; `covpool.load` builds it again in the same way.

    Args:
        settings: The settings of the fit.
        features: The backbone with its weights.
        fitted: The pool and the classifier.
        classes: Number of classes.
    """
    network = covpool.attach(
        settings.backbone,
        fitted.spec.name,
        classes,
        keep_last_stride=True,
        levels=(fitted.tap.level,) if fitted.tap.level else (),
        backbone_options=settings.backbone_options or None,
        **fitted.spec.options,
    )
    known = features.state_dict()
    network.features.load_state_dict({name: known[name] for name in network.features.state_dict()})
    network.pool.load_state_dict(fitted.pool.state_dict())
    classifier = fitted.chosen.classifier
    network.classifier.load_state_dict({"weight": classifier.weights, "bias": classifier.bias})
    return network.eval()


def score_test_set(
    network: Network, images: Images, augment: ResolvedAugment, settings: Fit, on_progress: OnProgress
) -> tuple[Tensor, Tensor]:  # (n, classes), (n,)
    """Compute the logits and targets of the test images with the network itself."""
    device = next(network.parameters()).device
    batches = EvalBatches(images, augment, settings.data, batch_size=settings.batch_size, device=device)
    return compute_scores(network, with_progress(batches, "test images", on_progress))
