"""The methods of the demo: each turns the features of a sample into one vector."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from covpool.demo._samples import TaskSamples
from covpool.pools import create_pool

Encoder = Callable[[TaskSamples], Tensor]  # samples -> (n, d)

FIRST_ORDER = "avg"
POOLS = (FIRST_ORDER, "cov", "isqrt", "gaussian")
CONTROLS = ("mean_std", "rbf")
KERNEL_WIDTHS = (0.0625, 0.25, 1.0, 4.0, 16.0)  # of the RBF kernel, relative to the median squared distance
MOST_CHANNELS = 128  # that second-order pools take without a reduction
JITTER = 1e-6  # added to the diagonal of the kernel matrix, whose entries are at most 1, so that its factor exists


def candidates(method: str, train: TaskSamples, widths: tuple[int, ...]) -> Iterator[tuple[str, Encoder]]:
    """Yield the settings that a method chooses from, each with its encoder, fitted to the training samples.

    Args:
        method: Name of a pool, "mean_std" (mean and standard deviation) or "rbf" (RBF kernel on the mean).
        train: Training samples.
        widths: Numbers of channels after PCA for second-order pools; 0 keeps all channels.
    """
    for variant in train.features:
        if method == "mean_std":
            yield variant, mean_and_deviation(variant)
        elif method == "rbf":
            mean = pooled(FIRST_ORDER, variant, 0, train)
            for width in KERNEL_WIDTHS:
                yield f"{variant}, kernel width {width:g}", on_kernel(mean, width, train)
        elif method == FIRST_ORDER:
            yield variant, pooled(method, variant, 0, train)
        else:
            yield from _second_order(method, variant, train, widths)


def _second_order(
    method: str, variant: str, train: TaskSamples, widths: tuple[int, ...]
) -> Iterator[tuple[str, Encoder]]:
    """Widths that the variant has channels for; a variant with many channels is always reduced."""
    channels = train.channels(variant)
    chosen = [width for width in widths if width < channels and (width or channels <= MOST_CHANNELS)] or [0]
    for width in chosen:
        yield f"{variant}, {width or channels} channels", pooled(method, variant, width, train)


def pooled(method: str, variant: str, width: int, train: TaskSamples) -> Encoder:
    """Encode by a pool, after PCA of the training descriptors to `width` channels unless that is 0."""
    reduction = {"reduce_to": width, "reduce_kind": "linear"} if width else {}
    pool = create_pool(method, train.channels(variant), **reduction).eval()
    if width:
        batches = list(train.batches(variant))
        masks = [mask for _, mask in batches if mask is not None]
        pool.init_reduction([x for x, _ in batches], masks=masks or None)

    @torch.no_grad()
    def encode(samples: TaskSamples) -> Tensor:
        return torch.cat([pool(x, mask=mask) for x, mask in samples.batches(variant)])

    return encode


def mean_and_deviation(variant: str) -> Encoder:
    """Encode by the mean and the standard deviation of every channel: second order without correlations."""

    def encode(samples: TaskSamples) -> Tensor:
        average = create_pool(FIRST_ORDER, samples.channels(variant))
        found = []
        for x, mask in samples.batches(variant):
            mean, square = average(x.double(), mask=mask), average(x.double().square(), mask=mask)
            found.append(torch.cat((mean, (square - mean.square()).clamp(min=0).sqrt()), 1).float())
        return torch.cat(found)

    return encode


def on_kernel(mean: Encoder, width: float, train: TaskSamples) -> Encoder:
    """Encode by the coordinates of an RBF kernel on the means: a linear classifier of them is a kernel classifier."""
    anchors = mean(train).double()
    squares = torch.cdist(anchors, anchors).square()
    scale = width * float(squares.median()) or 1.0  # the means may all be equal
    factor = torch.linalg.cholesky((-squares / scale).exp() + JITTER * torch.eye(len(anchors)))

    def encode(samples: TaskSamples) -> Tensor:
        kernel = (-torch.cdist(mean(samples).double(), anchors).square() / scale).exp()  # (n, anchors)
        return torch.linalg.solve_triangular(factor, kernel.mT, upper=False).mT.float()

    return encode
