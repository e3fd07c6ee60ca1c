"""The convex classifier at the size of a fine-grained data set: penalty path, three folds and the final fit."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from covpool.bench._record import Record
from covpool.engine.classifiers import fit_cross_validated

# Vectors, their length, classes: CUB-200-2011 with flips after an iSQRT-COV pool; a thousand images with flips.
SIZES = {"cuda": (11_988, 32_896, 200), "cpu": (2_000, 32_896, 10)}


def classifier(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    """Measure one whole fit; `seconds` has no effect. The fit tells whether it converged."""
    n, d, classes = SIZES[device.type]
    z, targets = _vectors(n, d, classes, device, seed)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    begin = time.perf_counter()
    found = fit_cross_validated(z, targets[: n // 2], classes=classes, copies=2)
    spent = 1000 * (time.perf_counter() - begin)
    extra = {"converged": float(found.converged), "accuracy": found.accuracy}
    if device.type == "cuda":
        extra["peak_over_vectors"] = torch.cuda.max_memory_allocated(device) / z.nbytes
    yield Record(
        "classifier", "logistic regression", (n, d, classes), "path, 3 folds, fit", spent, spent, spent, extra=extra
    )


def _vectors(n: int, d: int, classes: int, device: torch.device, seed: int) -> tuple[Tensor, Tensor]:
    """Return vectors around the centers of their classes; the second half are flips, close to the first."""
    generator = torch.Generator(device).manual_seed(seed)
    targets = (torch.arange(n // 2, device=device) % classes).repeat(2)
    z = torch.randn(n, d, generator=generator, device=device)
    z[n // 2 :] = z[n // 2 :].mul_(0.3) + z[: n // 2]
    return z.add_(torch.randn(classes, d, generator=generator, device=device)[targets], alpha=0.15), targets
