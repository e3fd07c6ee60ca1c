"""Numbers and settings of a run, as text for the page."""

import platform
from dataclasses import dataclass
from statistics import median_high

from covpool._settings import Settings
from covpool.engine.evaluation import Evaluation
from covpool.models import Network
from covpool.recipe import Recipe, flat_settings, total_epochs
from covpool.report._history import History

HEADING = ("name", "about")  # settings shown in the header of the page


@dataclass(frozen=True)
class Fact:
    """A value with its name and a note."""

    name: str
    value: str
    note: str = ""


def headline(history: History, evaluation: Evaluation | None) -> list[Fact]:
    """The most important numbers: accuracy, speed and time."""
    facts = []
    if evaluation is not None:
        facts = [_accuracy(evaluation, name) for name in evaluation.told if name != "top3"]
    else:
        logged = {"top-1": history.last("top1"), "validation top-1": history.last("validation_top1")}
        facts = [Fact(f"{name}, last logged", percent(top1)) for name, top1 in logged.items() if top1 is not None]
    speed = history.of_steps("images_per_s", "").y
    if speed:
        facts.append(Fact("training images per second", f"{median_high(speed):,.0f}", "median of the log"))
    seconds = training_seconds(history)
    if seconds:
        facts.append(Fact("training time", duration(seconds), f"{len(history.epochs)} epochs"))
    return facts


def metrics(evaluation: Evaluation) -> list[Fact]:
    """The accuracies with their intervals, and the calibration error."""
    facts = [_accuracy(evaluation, name) for name in evaluation.told]
    facts.append(Fact("top-1 error", percent(1 - evaluation.accuracy["top1"])))
    if evaluation.calibration_error is not None:
        note = "probability against accuracy, 15 bins"
        facts.append(Fact("calibration error", percent(evaluation.calibration_error), note))
    left_out = f"{evaluation.unread:,} left out: not readable, or class unknown" if evaluation.unread else ""
    facts.append(Fact("test images", f"{evaluation.images:,}", left_out))
    facts.append(Fact("classes", f"{len(evaluation.classes):,}"))
    return facts


def choice(history: History) -> list[Fact]:
    """How the epoch of the result was chosen, and the accuracy that it was chosen by."""
    facts = []
    for key, name, note in (
        ("validation_top1", "top-1 on the validation set", "the best epoch is chosen on it"),
        ("top1", "best epoch on the test set", "chosen on the test images, so too optimistic: not the result"),
    ):
        series = history.of_epochs(key, "")
        if series.y:
            best = max(series.y)
            facts.append(Fact(name, percent(best), f"epoch {series.x[series.y.index(best)]:.0f}; {note}"))
    return facts


def about_network(network: Network, recipe: Recipe) -> list[Fact]:
    """The network and its pool."""
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
    """Where the time was spent."""
    waited, seconds = (sum(float(e.get(key, 0.0)) for e in history.epochs) for key in ("waited", "seconds"))
    evaluation = sum(float(e.get("evaluation_seconds", 0.0)) for e in history.epochs)
    facts = []
    if seconds:
        facts.append(
            Fact("epochs without evaluation", duration(seconds), f"{duration(seconds / len(history.epochs))} each")
        )
        facts.append(Fact("waiting for images", percent(waited / seconds), duration(waited)))
    if evaluation:
        facts.append(Fact("evaluation", duration(evaluation)))
    for key, name in (("images_per_s", "overall"), ("compute_images_per_s", "without waiting for images")):
        speed = history.of_steps(key, "").y
        if speed:
            facts.append(Fact(f"images per second, {name}", f"{median_high(speed):,.0f}", "median of the log"))
    return facts


def progress(history: History, recipe: Recipe) -> Fact:
    """Whether the run is finished."""
    done, wanted = len(history.epochs), total_epochs(recipe)
    if history.end is not None:
        return Fact("finished", f"{done} epochs")
    return Fact("not finished", f"{done} of {wanted} epochs are in the log: `covpool train --resume` continues it")


def fitted(seconds: float) -> Fact:
    """The time of a fit, which is always finished."""
    return Fact("finished", f"fitted in {duration(seconds)}")


def changed_settings(recipe: Recipe) -> list[Fact]:
    """The settings that differ from their defaults, by their names on the command line."""
    defaults = dict(flat_settings(Recipe()))
    facts = []
    for name, value in flat_settings(recipe):
        if name not in HEADING and (name not in defaults or value != defaults[name]):
            facts.append(
                Fact(name, setting_in_words(value), setting_in_words(defaults[name]) if name in defaults else "")
            )
    return facts


def versions(recorded: dict[str, str]) -> list[Fact]:
    """The versions that the checkpoint was saved with, and the Python that made the report."""
    facts = [Fact(name, version) for name, version in recorded.items()]
    return [*facts, Fact("report made with Python", platform.python_version(), platform.platform())]


def training_seconds(history: History) -> float:
    """The training time: of all sessions for a finished run, otherwise of the epochs in the log."""
    if history.end is not None and "seconds" in history.end:
        return float(history.end["seconds"])
    return sum(float(e.get("seconds", 0.0)) for e in history.epochs)


def percent(value: float) -> str:
    """Format a fraction in percent.

    >>> percent(0.12345)
    '12.35 %'
    """
    return f"{100 * value:.2f} %"


def number(value: float) -> str:
    """Format a number with three significant digits.

    >>> number(451234.0), number(12.345)
    ('451,000', '12.3')
    """
    value = float(f"{value:.3g}")
    return f"{value:,.0f}" if value >= 100 else f"{value:g}"


def duration(seconds: float) -> str:
    """Format a number of seconds.

    >>> duration(0.34), duration(75), duration(7384)
    ('0.3 s', '1 min 15 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _accuracy(evaluation: Evaluation, name: str) -> Fact:
    low, high = (100 * bound for bound in evaluation.interval[name])
    return Fact(
        f"{name.replace('top', 'top-')} accuracy",
        percent(evaluation.accuracy[name]),
        f"95 % interval {low:.2f} to {high:.2f} %",
    )


def setting_in_words(value: object) -> str:
    """Write the value of a setting as TOML does."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(setting_in_words, value)) + "]"
    if isinstance(value, Settings):
        return ", ".join(f"{key}={setting_in_words(v)}" for key, v in value if v is not None)
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
