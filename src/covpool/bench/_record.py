"""The record of one measurement, with everything needed to reproduce it."""

from dataclasses import dataclass, field
from typing import Any, Self

from covpool.bench._measure import Timing


@dataclass
class Record:
    """The measurement of one candidate at one shape.

    Attributes:
        suite: Suite of the measurement.
        name: Candidate that was measured.
        shape: Shape of the features (b, n, c) or of the model's input.
        passes: What one call does, such as "forward+backward".
        median_ms: Median wall time per call.
        p20_ms: 20th percentile of the wall time.
        p80_ms: 80th percentile of the wall time.
        ratio: Median time of the suite's baseline over this median, measured in the same run; above 1 is faster.
        value_error: Relative error of the value against float64.
        gradient_error: Relative error of the gradient against float64.
        extra: Further measurements: device time under graph replay, memory, launches and others.
    """

    suite: str
    name: str
    shape: tuple[int, ...]
    passes: str
    median_ms: float
    p20_ms: float
    p80_ms: float
    ratio: float | None = None
    value_error: float | None = None
    gradient_error: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, timing: Timing, baseline: Timing | None = None, **about: Any) -> Self:
        """Make a record from timings.

        Args:
            timing: Timing of the candidate.
            baseline: Timing of the suite's baseline.
            about: The other attributes.
        """
        ratio = None if baseline is None else baseline.median / timing.median
        return cls(median_ms=timing.median, p20_ms=timing.p20, p80_ms=timing.p80, ratio=ratio, **about)
