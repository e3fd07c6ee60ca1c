"""The rule of verdicts."""

import pytest
import torch

from covpool import CovpoolError
from covpool.engine.evaluation import calibration_error
from covpool.studies.claims import Arm, Comparison
from covpool.studies.claims._records import ArmResult, pack_confidence
from covpool.studies.claims._verdict import Answers, Rule, Verdict, combine, examine, judge, pack, paired_interval

FEW, MANY = Arm(pool="avg", per_class=2), Arm(pool="isqrt", per_class=2)


@pytest.mark.parametrize(
    ("rule", "interval", "verdict"),
    [
        ("better", (0.001, 0.02), "confirmed"),
        ("better", (-0.001, 0.02), "not confirmed at this scale"),
        ("better", (-0.02, -0.001), "contradicted"),
        ("as good", (-0.009, 0.02), "confirmed"),
        ("as good", (-0.02, 0.02), "not confirmed at this scale"),
        ("as good", (-0.03, -0.011), "contradicted"),
        ("agrees", (-0.009, 0.009), "confirmed"),
        ("agrees", (0.005, 0.02), "not confirmed at this scale"),
        ("agrees", (0.011, 0.02), "contradicted"),
        ("agrees", (-0.02, -0.011), "contradicted"),
    ],
)
def test_the_interval_decides(rule: Rule, interval: tuple[float, float], verdict: Verdict) -> None:
    assert judge(interval, rule) == verdict


def test_records_of_different_images_are_not_compared() -> None:
    terms = ((1, Arm(pool="isqrt")), (-1, Arm(pool="avg")))
    hits = {"isqrt": answers(torch.ones(18)), "avg": answers(torch.ones(15))}
    with pytest.raises(CovpoolError, match="records of 15 and 18 test images cannot be compared"):
        examine(Comparison("isqrt above avg", terms), hits)


def test_a_claim_may_ask_for_a_number_of_points() -> None:
    assert judge((0.021, 0.04), "better", 0.02) == "confirmed"
    assert judge((0.01, 0.04), "better", 0.02) == "not confirmed at this scale"
    assert judge((0.01, 0.019), "better", 0.02) == "contradicted"
    hits = {name: answers(torch.tensor([name == "isqrt"] * 5 + [False] * 5)) for name in ("isqrt", "avg")}
    terms = ((1, Arm(pool="isqrt")), (-1, Arm(pool="avg")))
    verdicts = [examine(Comparison("", terms, least=least), hits).verdict for least in (0.02, 0.95)]
    assert verdicts == ["confirmed", "contradicted"]


def answers(hits: torch.Tensor) -> Answers:
    return Answers(hits.double(), torch.zeros(0))


def test_a_difference_of_gains_is_taken_image_by_image() -> None:
    generator = torch.Generator().manual_seed(0)
    hits = {name: torch.rand(500, generator=generator) < 0.7 for name in "abcd"}
    arms = {name: Arm(pool=name) for name in "abcd"}
    known = {arms[name].name: answers(hits[name]) for name in "abcd"}
    terms = tuple(zip((1, -1, -1, 1), arms.values(), strict=True))
    found = examine(Comparison("", terms), known)
    each = hits["a"].double() - hits["b"].double() - hits["c"].double() + hits["d"].double()
    assert found.difference == pytest.approx(float(each.mean()))
    half = 1.96 * float(each.std()) / 500**0.5
    assert found.interval == pytest.approx((found.difference - half, found.difference + half), abs=0.01)


def test_a_missing_arm_leaves_the_claim_untested() -> None:
    comparison = Comparison("", ((1, MANY), (-1, FEW)), seeds=(0, 1, 2))
    assert len(comparison.arms) == 6
    finding = examine(comparison, {MANY.name: answers(torch.ones(4))})
    assert finding.verdict == "not tested" and finding.interval is None
    assert combine([finding]) == "not tested" == combine([])


def test_few_seeds_that_disagree_widen_the_interval() -> None:
    contrast = torch.zeros(3, 1000, dtype=torch.float64)
    contrast[0] = 0.2  # no spread over images at all
    low, high = paired_interval(contrast)
    half = 4.303 * 0.2 / 3**0.5 / 3**0.5  # t of two degrees of freedom; the standard deviation is 0.2 / sqrt(3)
    assert (low, high) == pytest.approx((0.2 / 3 - half, 0.2 / 3 + half))
    one = paired_interval(contrast[:1])
    assert one == pytest.approx((0.2, 0.2))


def test_calibration_errors_are_compared_with_their_interval() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = {name: scale * torch.randn(400, 5, generator=generator) for name, scale in (("a", 0.3), ("b", 9.0))}
    targets = torch.randint(5, (400,), generator=generator)
    arms = {name: Arm(pool=name) for name in scores}
    known = {}
    for name, score in scores.items():
        result = ArmResult(
            data="x",
            arm=arms[name].name,
            images=400,
            right=pack(score.argmax(1) == targets),
            confidence=pack_confidence(score.softmax(1).amax(1).tolist()),
        )
        known[result.arm] = result.answers
    comparison = Comparison("", ((1, arms["a"]), (-1, arms["b"])), "better", measure="calibration")
    found = examine(comparison, known)
    expected = calibration_error(scores["b"], targets) - calibration_error(scores["a"], targets)
    assert found.difference == pytest.approx(expected, abs=0.01)  # confidences are recorded in steps of 1 / 255
    assert found.interval is not None and found.interval[0] < expected < found.interval[1]
    assert found.verdict == "confirmed"
