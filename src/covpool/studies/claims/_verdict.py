"""The rule of verdicts.

A comparison is a difference of accuracies (or of calibration errors) on the same test images, with its paired 95 %
interval. Test images are resampled. Where the training images or weights are random, seeds are resampled too; with
fewer than five seeds a t-interval over seeds is computed as well, and the wider of the two counts.
"""

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.engine.evaluation import Interval, bootstrap

MARGIN = 0.01  # "as good", "agrees" and "flat" mean within one point
MANY_SEEDS = 5  # from which the bootstrap over seeds counts alone
T = {2: 12.706, 3: 4.303, 4: 3.182}  # 97.5 % quantile of Student's t by number of seeds
DRAWS = 1000  # resamples of a calibration error
BINS = 15  # of the calibration error

Rule = Literal["better", "as good", "agrees"]
Verdict = Literal["confirmed", "not confirmed at this scale", "contradicted", "not tested"]


class Experiment(Protocol):
    """An arm: what a comparison compares with others, such as a fit or a training. Its name identifies its record."""

    @property
    def name(self) -> str: ...

    def with_seed(self, seed: int) -> Self: ...


E = TypeVar("E", bound=Experiment)


@dataclass(frozen=True)
class Comparison(Generic[E]):
    """A difference that a claim predicts.

    Attributes:
        text: The prediction in words.
        terms: Weights and arms; the difference is their weighted sum of accuracies.
        rule: What the claim predicts about the difference.
        seeds: Seeds of the random arms.
        measure: Accuracy, or the calibration error with its sign changed, so that more is better for both.
        least: Difference that "better" must exceed.
    """

    text: str
    terms: tuple[tuple[int, E], ...]
    rule: Rule = "better"
    seeds: tuple[int, ...] = (0,)
    measure: Literal["accuracy", "calibration"] = "accuracy"
    least: float = 0.0

    @property
    def arms(self) -> tuple[E, ...]:
        """All arms with all seeds, each once."""
        return tuple(dict.fromkeys(arm.with_seed(seed) for seed in self.seeds for _, arm in self.terms))


@dataclass(frozen=True)
class Answers:
    """What an arm answered on the test images.

    Attributes:
        right: 1 for a correct prediction, (n,).
        confidence: Probability of the predicted class, (n,); empty if it is not recorded.
    """

    right: Tensor
    confidence: Tensor


@dataclass(frozen=True)
class Finding:
    """A comparison with its measured difference; both are None if an arm has no record.

    `measured` replaces them in words where the comparison is not one of accuracies.
    """

    comparison: Comparison[Any]
    difference: float | None
    interval: Interval | None
    verdict: Verdict
    measured: str = ""

    @property
    def points(self) -> str:
        """The difference and its interval in points, or what was measured, as text; "-" without a record."""
        if self.measured:
            return self.measured
        return "-" if self.difference is None or self.interval is None else in_points(self.difference, self.interval)


def in_points(difference: float, interval: Interval) -> str:
    """Write a difference of accuracies with its interval, in points.

    >>> in_points(0.05, (0.0412, 0.06))
    '+5.0 (+4.1 to +6.0)'
    """
    low, high = interval
    return f"{100 * difference:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def pack(right: Tensor) -> str:
    """Write booleans (n,) as base64.

    >>> unpack(pack(torch.tensor([True, False, True])), 3).tolist()
    [1.0, 0.0, 1.0]
    """
    return base64.b64encode(np.packbits(right.cpu().numpy()).tobytes()).decode()


def unpack(text: str, count: int) -> Tensor:  # (count,)
    """Read what `pack` wrote, as numbers 0 and 1."""
    bits = np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), count=count)
    return torch.from_numpy(bits).double()


def judge(interval: Interval, rule: Rule, least: float = 0.0) -> Verdict:
    """Apply the rule to the interval of a difference.

    "better" is confirmed above `least` and contradicted below it. "as good" is confirmed above minus one point and
    contradicted below it. "agrees" is confirmed inside one point on either side and contradicted outside.

    >>> judge((0.002, 0.03), "better"), judge((-0.002, 0.03), "better"), judge((-0.002, 0.03), "as good")
    ('confirmed', 'not confirmed at this scale', 'confirmed')
    """
    low, high = interval
    if rule == "agrees":
        holds, fails = low >= -MARGIN and high <= MARGIN, low > MARGIN or high < -MARGIN
    else:
        limit = least if rule == "better" else -MARGIN
        holds, fails = low > limit, high < limit
    return "confirmed" if holds else "contradicted" if fails else "not confirmed at this scale"


def examine(comparison: Comparison[Any], answers: Mapping[str, Answers]) -> Finding:
    """Compute a difference, its interval and the verdict from what the arms answered, by the name of the arm."""
    if any(arm.name not in answers for arm in comparison.arms):
        return Finding(comparison, None, None, "not tested")
    counts = {len(answers[arm.name].right) for arm in comparison.arms}
    if len(counts) > 1:
        raise CovpoolError(
            f"{comparison.text}: records of {' and '.join(map(str, sorted(counts)))} test images cannot be compared; "
            "they come from different data: remove those of one"
        )
    if comparison.measure == "calibration":
        difference, interval = _calibration(comparison, answers)
    else:
        contrast = torch.stack(
            [
                torch.stack([weight * answers[arm.with_seed(seed).name].right for weight, arm in comparison.terms])
                for seed in comparison.seeds
            ]
        ).sum(1)  # (seeds, images)
        difference, interval = float(contrast.mean()), paired_interval(contrast)
    return Finding(comparison, difference, interval, judge(interval, comparison.rule, comparison.least))


def paired_interval(contrast: Tensor) -> Interval:  # (seeds, images)
    """The 95 % interval of the mean: over images and seeds, or over seeds alone where that is wider."""
    low, high = bootstrap(contrast)
    seeds = len(contrast)
    if not 1 < seeds < MANY_SEEDS:
        return low, high
    means = contrast.mean(1)
    half = T[seeds] * float(means.std()) / math.sqrt(seeds)
    middle = float(means.mean())
    return (middle - half, middle + half) if 2 * half > high - low else (low, high)


@dataclass(frozen=True)
class Claim(Generic[E]):
    """A claim and the comparisons that decide it.

    Attributes:
        number: Its number.
        title: A few words.
        text: The claim, worded for its kind of experiments.
        comparisons: All of them must hold.
        paper: What the paper reports, or "" for a claim of ours.
        plotted: Arms that only the plots need.
        remark: What the experiment cannot show, or why there is none.
    """

    number: int
    title: str
    text: str
    comparisons: tuple[Comparison[E], ...]
    paper: str = ""
    plotted: tuple[E, ...] = ()
    remark: str = ""

    @property
    def arms(self) -> tuple[E, ...]:
        """All arms, each once."""
        compared = [arm for comparison in self.comparisons for arm in comparison.arms]
        return tuple(dict.fromkeys([*compared, *self.plotted]))


def combine(findings: list[Finding]) -> Verdict:
    """The verdict of a claim: contradicted if a part is, confirmed if every part is."""
    verdicts = [finding.verdict for finding in findings]
    if not verdicts or "not tested" in verdicts:
        return "not tested"
    if "contradicted" in verdicts:
        return "contradicted"
    return "confirmed" if set(verdicts) == {"confirmed"} else "not confirmed at this scale"


def _calibration(comparison: Comparison[Any], answers: Mapping[str, Answers]) -> tuple[float, Interval]:
    """Minus the weighted sum of calibration errors, and its interval over resampled test images."""
    generator = torch.Generator().manual_seed(0)
    images = len(answers[comparison.arms[0].name].right)
    weights = torch.ones(DRAWS + 1, images, dtype=torch.float64)  # the first row is the test set itself
    for row in weights[1:]:
        row[:] = torch.randint(images, (images,), generator=generator).bincount(minlength=images)
    errors = torch.zeros(DRAWS + 1, dtype=torch.float64)
    for weight, arm in comparison.terms:
        found = answers[arm.name]
        group = (found.confidence * BINS).long().clamp(max=BINS - 1)
        gaps = torch.zeros(images, BINS, dtype=torch.float64)
        gaps[torch.arange(images), group] = found.confidence - found.right
        errors -= weight * (weights @ gaps).abs().sum(1) / images
    low, high = errors[1:].quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return float(errors[0]), (low, high)
