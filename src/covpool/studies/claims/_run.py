"""Running arms: fit, evaluate, record."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from covpool.diagnostics import log_histogram, logarithm, newton_schulz, power, spectrum
from covpool.engine.classifiers import LinearClassifier, fit_cross_validated, fit_logistic
from covpool.engine.evaluation import calibration_error, fit_svm
from covpool.pools import Pool
from covpool.studies._feature_maps import Maps
from covpool.studies._frozen import pooled_vectors, start_from_data
from covpool.studies._pool_spec import PoolSpec
from covpool.studies.claims._arm import Arm
from covpool.studies.claims._records import ArmResult, pack_confidence
from covpool.studies.claims._verdict import Claim, E, pack
from covpool.studies.claims._views import Views

ONE_IMAGE_PENALTY = 1e-6  # where a class has one training image and nothing can be held out
SPAN, BINS = (-7.0, 3.0), 60  # of the histograms of eigenvalues, in log10
BATCH = 64


class Runner:
    """Runs arms on one data set. The fits of one image size are kept, so that arms with the same fit share it.

    Args:
        views: The feature maps.
        calibrated: Names of the arms whose confidence is recorded.
    """

    def __init__(self, views: Views, calibrated: frozenset[str] = frozenset()) -> None:
        self.views, self.calibrated = views, calibrated
        self._fits: dict[Arm, _FittedPool] = {}

    def run(self, arm: Arm) -> ArmResult:
        """Fit an arm, unless its fit is known, and evaluate it on the test images."""
        name = self.views.subject.name
        train, test = self.views.train(arm), self.views.test(arm)  # so that `seconds` leaves the maps out
        begin = time.perf_counter()
        if arm.classifier == "spectrum":
            pool = self._pool(arm, train)
            return ArmResult(data=name, arm=arm.name, spectra=_spectra(pool, test), seconds=time.perf_counter() - begin)
        parts = [self._fit(replace(arm.fit, pool=pool), train) for pool in arm.pool.split("+")]
        begin_test = time.perf_counter()
        vectors = [pooled_vectors(part.pool, test) for part in parts]
        _wait(self.views.device)
        pooling = time.perf_counter() - begin_test
        scores = torch.stack([part.score(z).log_softmax(1) for part, z in zip(parts, vectors, strict=True)]).mean(0)
        right = (scores.argmax(1) == test.targets) & scores.isfinite().all(1)
        first, logistic = parts[0], arm.classifier == "logistic"
        wanted = arm.name in self.calibrated
        return ArmResult(
            data=name,
            arm=arm.name,
            top1=float(right.double().mean()),
            images=len(test),
            right=pack(right),
            confidence=pack_confidence(scores.softmax(1).amax(1).tolist()) if wanted else "",
            calibration_error=calibration_error(scores, test.targets) if logistic else None,
            **(first.told if len(parts) == 1 else {}),
            length=sum(z.shape[1] for z in vectors),
            ms_per_image=1000 * pooling / len(test),
            seconds=time.perf_counter() - begin,
        )

    def _pool(self, arm: Arm, train: Maps) -> Pool:
        backbone = self.views.backbone(arm)
        (channels,) = backbone.channels
        spec = PoolSpec.read(arm.pool, channels, backbone.layout, self.views.classes, width=arm.width)
        pool, _ = spec.make(seed=arm.seed)
        pool.to(self.views.device).eval()
        start_from_data(pool, train)
        return pool

    def _fit(self, arm: Arm, train: Maps) -> "_FittedPool":
        if any(known.size != arm.size for known in self._fits):
            self._fits.clear()
        if arm not in self._fits:
            pool = self._pool(arm, train)
            self._fits[arm] = _fit(arm, pool, pooled_vectors(pool, train), train.targets, self.views.classes)
        return self._fits[arm]


class _FittedPool:
    """A pool with its classifier, and what the record says about the fit."""

    def __init__(self, pool: Pool, score: Callable[[Tensor], Tensor], told: dict[str, Any] | None = None) -> None:
        self.pool, self.score, self.told = pool, score, told or {}


def _fit(arm: Arm, pool: Pool, z: Tensor, targets: Tensor, classes: int) -> _FittedPool:
    copies = len(z) // len(targets)
    if arm.classifier == "prototypes":
        return _FittedPool(pool, _prototypes(z, targets.repeat(copies), classes))
    if arm.classifier == "svm":
        svm = fit_svm(normalize(z).cpu(), targets.repeat(copies).cpu(), classes=classes)
        found = LinearClassifier(svm.weights.to(z), svm.bias.to(z))
        return _FittedPool(pool, lambda vectors: found.scores(normalize(vectors)))
    if arm.per_class == 1:
        single = fit_logistic(z, targets.repeat(copies), penalty=ONE_IMAGE_PENALTY, classes=classes)
        return _FittedPool(pool, single.scores, {"penalty": ONE_IMAGE_PENALTY})
    chosen = fit_cross_validated(z, targets, classes=classes, copies=copies)
    told = {
        "penalty": chosen.penalty,
        "penalties_tried": {f"{penalty:g}": accuracy for penalty, accuracy in chosen.accuracies.items()},
        "held_out": chosen.accuracy,
        "converged": chosen.converged,
    }
    return _FittedPool(pool, chosen.classifier.scores, told)


def _prototypes(z: Tensor, targets: Tensor, classes: int) -> Callable[[Tensor], Tensor]:
    """Score by the cosine between a vector and the mean of each class, both minus the mean of all training vectors."""
    mean = z.mean(0)
    sums = torch.zeros(classes, z.shape[1], dtype=z.dtype, device=z.device)
    prototypes = normalize(sums.index_add_(0, targets, normalize(z - mean)))
    return lambda vectors: normalize(vectors - mean) @ prototypes.mT


@torch.no_grad()
def _spectra(pool: Pool, maps: Maps) -> dict[str, Any]:
    """Histograms of the eigenvalues of all test images: as they are, and after each normalization."""
    found = []
    for features in maps.features.split(BATCH):
        x = pool.descriptors(features.to(maps.targets.device).float()).unflatten(0, (len(features), -1))
        found.append(spectrum(x).cpu())
    values = torch.cat(found)
    logs = logarithm(values)
    kinds = {"covariance": values, "square root": power(values), "iSQRT, N = 5": newton_schulz(values)}
    told: dict[str, Any] = {}
    for name, eigenvalues in kinds.items():
        histogram = log_histogram(eigenvalues, span=SPAN, bins=BINS)
        told[name] = {"share": [round(float(s), 6) for s in histogram.share], "zero": histogram.zero}
    told["span"], told["positive"] = list(SPAN), float((values > 0).double().sum(1).mean())
    counts = torch.histc(logs.float(), BINS, -7.0, 7.0) / logs.numel()
    told["logarithm"] = {"share": [round(float(s), 6) for s in counts], "from": -7.0, "to": 7.0}
    return told


def plan(claims: Sequence[Claim[E]], known: dict[str, ArmResult]) -> list[E]:
    """The arms without a record, in the order in which they are run."""
    arms = dict.fromkeys(arm for claim in claims for arm in claim.arms)
    return [arm for arm in arms if arm.name not in known]


def run_arms(
    runner: Runner, arms: Sequence[Arm], seconds: float, on_failure: Callable[[Arm, Exception], None]
) -> Iterator[ArmResult]:
    """Run arms until the time is over; an arm that has begun is finished, and one that fails does not stop the others.

    Args:
        runner: Runs one arm.
        arms: The arms in order.
        seconds: Time after which no arm begins.
        on_failure: Called with an arm that failed and the error.
    """
    begin = time.perf_counter()
    for arm in arms:
        if time.perf_counter() - begin > seconds:
            return
        try:
            yield runner.run(arm)
        except (RuntimeError, ValueError) as error:
            on_failure(arm, error)
        if runner.views.device.type == "cuda":
            torch.cuda.empty_cache()  # the vectors of the next arm have another size


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
