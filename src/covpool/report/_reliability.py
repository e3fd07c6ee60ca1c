"""The reliability diagram: how often the network is right, by its confidence."""

from typing import Any

from covpool.engine.evaluation import wilson
from covpool.report._drawing import COLORS, TEXT, draw
from covpool.report._predictions import Predictions

BINS = 10


def reliability_plot(predictions: Predictions) -> list[str]:
    """Plot the accuracy of the images in each interval of confidence, with its 95 % interval, and the diagonal."""
    known = predictions.targets >= 0
    confidence, answers = predictions.logits[known].double().softmax(1).max(1)
    right = answers == predictions.targets[known]
    group = (confidence * BINS).long().clamp(max=BINS - 1)

    def paint(axes: Any) -> None:
        axes.plot([0, 100], [0, 100], color=TEXT, linestyle="--", linewidth=1.0, label="calibrated")
        for i in range(BINS):
            if images := int((group == i).sum()):
                hits = int(right[group == i].sum())
                x, y = 100 * float(confidence[group == i].mean()), 100 * hits / images
                low, high = (100 * bound for bound in wilson(hits, images))
                size = 3 + 9 * (images / len(group)) ** 0.5
                axes.plot([x, x], [low, high], color=COLORS[0], alpha=0.5)
                axes.plot([x], [y], color=COLORS[0], linestyle="", marker="o", markersize=size)
        axes.set_title("Accuracy by confidence, %")
        axes.set_xlabel("confidence, %")
        axes.legend(loc="upper left")

    return [draw("reliability", paint, about="Reliability diagram")] if len(group) else []
