"""Comparing the candidates of a fit on training images, and fitting the chosen one to all of them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool._progress import OnProgress
from covpool.data import Images, ResolvedAugment
from covpool.studies._feature_maps import Maps
from covpool.studies._frozen import FrozenFit, fit_frozen
from covpool.studies._pool_spec import PoolSpec
from covpool.studies.fit._choice import Candidate, Trial, choose
from covpool.studies.fit._features import Tap, TappedBackbone
from covpool.studies.fit._settings import Fit

CPU_IMAGES = 2000  # training images that candidates are compared on, on a CPU

OnNote = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class FittedPool:
    """A pool that was started from training features, and its classifier."""

    spec: PoolSpec
    tap: Tap
    frozen: FrozenFit
    trial: Trial
    augment: ResolvedAugment


class CandidateComparison:
    """Compares the candidates on training images, and fits the chosen one to all of them.

    Args:
        settings: The settings of the fit.
        backbone: The frozen backbone.
        images: The training images.
        on_progress: Called with the progress.
        on_note: Receives sentences on what is done, before the work begins.

    Attributes:
        notes: These sentences.
        trials: The cross-validation of every candidate.
    """

    def __init__(
        self, settings: Fit, backbone: TappedBackbone, images: Images, on_progress: OnProgress, on_note: OnNote
    ) -> None:
        self.settings, self.backbone, self.images = settings, backbone, images
        self.on_progress, self.on_note = on_progress, on_note
        self.notes: list[str] = []
        self.trials: list[Trial] = []

    def run(self) -> FittedPool:
        """Compare the candidates; returns the chosen one, fitted to all training images."""
        settings, backbone = self.settings, self.backbone
        count = len(settings.pools) * len(backbone.sizes) * len(backbone.taps)
        compared = self._images_to_compare(count)
        for tap in backbone.taps:
            for label in settings.pools:
                self._spec(label, tap).make(seed=settings.seed)  # finds mistakes in options before the work begins
        self._describe(count, len(compared))
        found: list[FittedPool] = []
        for size in backbone.sizes:
            maps = backbone.compute(compared, size, backbone.taps, self.on_progress)
            for tap in backbone.taps:
                for label in settings.pools:
                    self.on_progress(f"fitting {label} at {size} px", len(found), count)
                    found.append(self._fit(Candidate(label, size, tap.level), tap, maps[tap.level]))
        self.trials = [fitted.trial for fitted in found]
        chosen = found[self.trials.index(choose(self.trials))]
        return chosen if len(compared) == len(self.images) else self._fit_all(chosen)

    def _fit_all(self, chosen: FittedPool) -> FittedPool:
        candidate, tap = chosen.trial.candidate, chosen.tap
        maps = self.backbone.compute(self.images, candidate.size, [tap], self.on_progress)
        self.on_progress(f"fitting {candidate.pool} to all images", 0, 0)
        return self._fit(candidate, tap, maps[tap.level])

    def _spec(self, label: str, tap: Tap) -> PoolSpec:
        return PoolSpec.read(label, tap.channels, tap.layout, len(self.images.classes), width=self.settings.width)

    def _fit(self, candidate: Candidate, tap: Tap, maps: Maps) -> FittedPool:
        settings, classes = self.settings, len(self.images.classes)
        spec = self._spec(candidate.pool, tap)
        pool, _ = spec.make(seed=settings.seed)
        weights = _balanced(maps.targets, classes) if settings.class_weights == "balanced" else None
        frozen = fit_frozen(pool, maps, classes, class_weights=weights, folds=settings.folds, seed=settings.seed)
        chosen = frozen.chosen
        trial = Trial(
            candidate,
            pool.out_features,
            chosen.accuracy,
            chosen.standard_error,
            chosen.penalty,
            chosen.accuracies,
            sum(frozen.seconds.values()),
            chosen.converged,
        )
        return FittedPool(spec, tap, frozen, trial, self.backbone.augment(candidate.size))

    def _images_to_compare(self, candidates: int) -> Images:
        """The training images that candidates are compared on; all of them if there is one candidate."""
        limit = self.settings.choose_on or (CPU_IMAGES if self.backbone.device.type == "cpu" else len(self.images))
        if candidates == 1 or limit >= len(self.images):
            return self.images
        return _sample(self.images, limit, self.settings.seed)

    def _describe(self, candidates: int, compared: int) -> None:
        """Tell what will be done before it takes time."""
        self._note(*self.backbone.notes)
        if candidates == 1:
            return
        every = len(self.images)
        on = "the training images" if compared == every else f"{compared:,} of {every:,} training images"
        sizes = " and ".join(f"{size} px" for size in self.backbone.sizes)
        self._note(
            f"comparing {candidates} candidates by cross-validation on {on} ({sizes}); "
            "name pool=, size= or level= to compare fewer"
        )

    def _note(self, *notes: str) -> None:
        for note in notes:
            self.notes.append(note)
            self.on_note(note)


def _sample(images: Images, count: int, seed: int) -> Images:
    """Draw images, the same fraction of every class, at least two."""
    targets = torch.tensor(images.targets)
    generator = torch.Generator().manual_seed(seed)
    chosen: list[int] = []
    for target in range(len(images.classes)):
        members = (targets == target).nonzero().flatten()
        wanted = max(2, round(count * len(members) / len(images)))
        chosen += members[torch.randperm(len(members), generator=generator)[:wanted]].tolist()
    return images.select(sorted(chosen))


def _balanced(targets: Tensor, classes: int) -> Tensor:
    """A weight per class: inversely proportional to its number of images, 1 on average over images."""
    counts = targets.bincount(minlength=classes).clamp(min=1)
    return len(targets) / (classes * counts.float())
