"""Evaluating checkpoints on a data set, and predicting the classes of single images."""

from covpool.engine.evaluation._evaluate import Checkpoint, Protocol, check_classes, fused_scores
from covpool.engine.evaluation._intervals import Interval, paired_bootstrap, wilson
from covpool.engine.evaluation._judgement import ClassAccuracy, Judgement, judge
from covpool.engine.evaluation._pooled import cached, file_digest, file_marks
from covpool.engine.evaluation._predict import Prediction, predict
from covpool.engine.evaluation._submission import write_submission

__all__ = [
    "Checkpoint",
    "ClassAccuracy",
    "Interval",
    "Judgement",
    "Prediction",
    "Protocol",
    "cached",
    "check_classes",
    "file_digest",
    "file_marks",
    "fused_scores",
    "judge",
    "paired_bootstrap",
    "predict",
    "wilson",
    "write_submission",
]
