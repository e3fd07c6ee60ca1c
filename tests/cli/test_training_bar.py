import io
import re
import time

from rich.console import Console

from covpool.cli._training_bar import TrainingBar


def last_news(bar: TrainingBar) -> str:
    return str(bar._bar.tasks[bar._steps].fields["news"])


def test_events_are_shown() -> None:
    screen = io.StringIO()
    with TrainingBar(Console(file=screen, width=160)) as bar:
        bar({"event": "stage", "step": 0, "total_steps": 20, "notes": ["the backbone from file.pth"]})
        bar({"event": "caching", "what": "decoding images", "step": 0, "done": 3, "count": 3})
        bar({"event": "tick", "step": 10, "epoch": 1})
        speeds = {"images_per_s": 100.0, "compute_images_per_s": 900.0}
        bar({"event": "step", "step": 10, "epoch": 1, "loss": 1.5, "accuracy": 0.25, **speeds})
        bar({"event": "broken", "step": 10, "part": "train", "path": "a/[b].jpg"})
        learnt = {"train_loss": 1.4, "train_top1": 0.3}
        bar(
            {
                "event": "epoch",
                "step": 10,
                "epoch": 1,
                **learnt,
                "top1": 0.5,
                "top5": 0.9,
                "waited": 1.8,
                "seconds": 2.0,
                "evaluation_seconds": 5.0,
            }
        )
        bar({"event": "epoch", "step": 20, "epoch": 2, **learnt, "seconds": 2.0})
        bar({"event": "epoch", "step": 25, "epoch": 4, **learnt, "top1": 0.5, "top5": 1.0, "seconds": 2.0})
        bar({"event": "epoch", "step": 30, "epoch": 3, **learnt, "validation_top1": 0.25, "seconds": 2.0})
        assert "loss 1.400  accuracy 30.0%" in last_news(bar)  # of the epoch, not of a step before its end
        bar({"event": "step", "step": 30, "epoch": 3, "loss": 1.5, "accuracy": 0.25, **speeds})
    said = screen.getvalue()
    assert said.count("waiting for images") == 1
    for words in (
        "the backbone from file.pth",
        "10/20",
        "loss 1.500  accuracy 25.0%  100 images/s",
        "90% of the time is waiting for images: raise data.workers or set data.cache",
        "skipping an image that cannot be read: a/[b].jpg",
        "epoch 1: loss 1.400, training 30.0%, test 50.00%, top-5 90.00%, 7 s",
        "epoch 4: loss 1.400, training 30.0%, test 50.00%, 2 s",
        "epoch 2: loss 1.400, training 30.0%, test not evaluated, 2 s",
        "epoch 3: loss 1.400, training 30.0%, validation 25.00%, 2 s",
    ):
        assert words in said, words


def test_nothing_is_wider_than_80_columns() -> None:
    screen = io.StringIO()
    with TrainingBar(Console(file=screen, width=80, force_terminal=True, color_system=None)) as bar:
        bar({"event": "stage", "step": 0, "total_steps": 2400, "notes": []})
        bar({"event": "tick", "step": 1200, "epoch": 12})
        speeds = {"images_per_s": 1000.0, "compute_images_per_s": 9000.0}
        learnt = {"train_loss": 6.2345, "train_top1": 0.9999, "validation_top1": 0.99, "validation_top5": 0.99}
        bar({"event": "epoch", "step": 1200, "epoch": 100, **learnt, "seconds": 1234.0})
        bar({"event": "step", "step": 1200, "epoch": 12, "loss": 1.5, "accuracy": 0.25, **speeds})
    lines = re.split(r"[\r\n]|\x1b\[[?\d]*[A-Za-z]", screen.getvalue())
    assert max(map(len, lines)) <= 80
    assert any(
        re.search(r"1200/2400 loss 1.500  accuracy 25.0%  1000 images/s \d:\d\d:\d\d (left|taken)$", line)
        for line in lines
    )


def test_a_training_that_never_ends_has_a_time_left() -> None:
    screen = io.StringIO()
    with TrainingBar(Console(file=screen, width=80, force_terminal=True)) as bar:
        bar({"event": "stage", "step": 0, "total_steps": 10**24, "notes": []})
        for step in range(1, 4):
            time.sleep(0.01)
            bar({"event": "tick", "step": step, "epoch": 1})
    assert " days, " in screen.getvalue()


def test_a_bar_that_never_started_leaves_nothing() -> None:
    screen = io.StringIO()
    with TrainingBar(Console(file=screen)):
        pass
    assert not screen.getvalue().strip()


def test_long_paths_are_not_wrapped() -> None:
    screen, path = io.StringIO(), "birds/" + "a long name/" * 20 + "1.jpg"
    with TrainingBar(Console(file=screen, width=80)) as bar:
        bar({"event": "broken", "step": 10, "part": "train", "path": path})
    assert path in screen.getvalue()
