"""Numbers and settings of a run, as words for the page."""

import platform
from dataclasses import dataclass

from covpool._settings import Settings
from covpool.engine.evaluation import Judgement
from covpool.models import Network
from covpool.recipe import Recipe, flat_settings, total_epochs
from covpool.report._history import History

HEADING = ("name", "about")  # settings that stand at the head of the page


@dataclass(frozen=True)
class Fact:
    """One number with its name, and what is to be said of it."""

    name: str
    value: str
    note: str = ""


def headline(history: History, judgement: Judgement | None) -> list[Fact]:
    """What one wants to know first."""
    facts = []
    if judgement is not None:
        facts = [_accuracy(judgement, k) for k in (1, 5) if k == 1 or k < len(judgement.classes)]
    elif history.last("top1") is not None:
        facts = [Fact("top-1, last logged", percent(history.last("top1") or 0.0))]
    speed = history.of_steps("images_per_s", "").y
    if speed:
        facts.append(Fact("training images per second", f"{_middle(speed):,.0f}", "median of the log"))
    seconds = training_seconds(history)
    if seconds:
        facts.append(Fact("time of training", duration(seconds), f"{len(history.epochs)} epochs"))
    return facts


def metrics(judgement: Judgement) -> list[Fact]:
    """The judged accuracies with their intervals."""
    facts = [_accuracy(judgement, k) for k in (1, 3, 5) if k == 1 or k < len(judgement.classes)]
    facts.append(Fact("top-1 error", percent(1 - judgement.accuracy["top1"])))
    if judgement.calibration_error is not None:
        note = "stated probability against accuracy, 15 bins"
        facts.append(Fact("calibration error", percent(judgement.calibration_error), note))
    left_out = f"{judgement.unread:,} left out: unreadable or of unknown class" if judgement.unread else ""
    facts.append(Fact("test images", f"{judgement.images:,}", left_out))
    facts.append(Fact("classes", f"{len(judgement.classes):,}"))
    return facts


def about_network(network: Network, recipe: Recipe) -> list[Fact]:
    """What was trained."""
    pool = network.pool
    channels = " + ".join(f"{c:,}" for c in pool.channels)
    parameters = sum(p.numel() for p in network.parameters())
    return [
        Fact("network", recipe.model.name or recipe.model.backbone or recipe.init.weights),
        Fact("pool", type(pool).__name__, f"{channels} channels pooled"),
        Fact("representation", f"{pool.out_features:,} numbers per image"),
        Fact("parameters", f"{parameters:,}"),
    ]


def timings(history: History) -> list[Fact]:
    """Where the time went."""
    waited, seconds = (sum(float(e.get(key, 0.0)) for e in history.epochs) for key in ("waited", "seconds"))
    judged = sum(float(e.get("evaluation_seconds", 0.0)) for e in history.epochs)
    facts = []
    if seconds:
        facts.append(
            Fact("epochs, evaluation apart", duration(seconds), f"{duration(seconds / len(history.epochs))} each")
        )
        facts.append(Fact("of it waiting for images", percent(waited / seconds), duration(waited)))
    if judged:
        facts.append(Fact("evaluation", duration(judged)))
    for key, name in (("images_per_s", "all in all"), ("compute_images_per_s", "without waiting for images")):
        speed = history.of_steps(key, "").y
        if speed:
            facts.append(Fact(f"images per second, {name}", f"{_middle(speed):,.0f}", "median of the log"))
    return facts


def progress(history: History, recipe: Recipe) -> Fact:
    """Whether the run is over."""
    done, wanted = len(history.epochs), total_epochs(recipe)
    if history.end is not None:
        return Fact("finished", f"{done} epochs")
    return Fact("not finished", f"{done} of {wanted} epochs are in the log: `covpool train --resume` goes on")


def changed_settings(recipe: Recipe) -> list[Fact]:
    """Every setting that is not the default, by its name on the command line, with the default beside it."""
    usual = dict(flat_settings(Recipe()))
    facts = []
    for name, value in flat_settings(recipe):
        if name not in HEADING and (name not in usual or value != usual[name]):
            facts.append(Fact(name, _word(value), _word(usual[name]) if name in usual else ""))
    return facts


def versions(recorded: dict[str, str]) -> list[Fact]:
    """What the checkpoint was saved with, and what made the report."""
    facts = [Fact(name, version) for name, version in recorded.items()]
    return [*facts, Fact("report made with Python", platform.python_version(), platform.platform())]


def training_seconds(history: History) -> float:
    """Of all sessions together where the run is over, else of the epochs in the log."""
    if history.end is not None and "seconds" in history.end:
        return float(history.end["seconds"])
    return sum(float(e.get("seconds", 0.0)) for e in history.epochs)


def percent(value: float) -> str:
    """
    >>> percent(0.12345)
    '12.35 %'
    """
    return f"{100 * value:.2f} %"


def number(value: float) -> str:
    """
    >>> number(451234.0), number(12.345)
    ('451,000', '12.3')
    """
    value = float(f"{value:.3g}")
    return f"{value:,.0f}" if value >= 100 else f"{value:g}"


def duration(seconds: float) -> str:
    """
    >>> duration(0.34), duration(75), duration(7384)
    ('0.3 s', '1 min 15 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _accuracy(judgement: Judgement, k: int) -> Fact:
    low, high = (100 * bound for bound in judgement.interval[f"top{k}"])
    return Fact(f"top-{k} accuracy", percent(judgement.accuracy[f"top{k}"]), f"95 % interval {low:.2f} to {high:.2f} %")


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_word, value)) + "]"
    if isinstance(value, Settings):
        return ", ".join(f"{key}={_word(v)}" for key, v in value if v is not None)
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
