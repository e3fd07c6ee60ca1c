"""Evaluating checkpoints on a data set, and predicting the classes of single images."""

from covpool.engine.evaluation._evaluate import (
    EvaluationProtocol,
    LoadedCheckpoint,
    check_classes,
    evaluate,
    fused_scores,
)
from covpool.engine.evaluation._intervals import Interval, paired_bootstrap, wilson
from covpool.engine.evaluation._predict import Prediction, predict
from covpool.engine.evaluation._representations import represent
from covpool.engine.evaluation._saved_scores import SCORES_FILE, SavedScores, read_scores, save_scores
from covpool.engine.evaluation._submission import write_submission
from covpool.engine.evaluation._summary import ClassAccuracy, Evaluation, summarize_scores
from covpool.engine.evaluation._tensor_cache import cached, file_digest, file_marks

__all__ = [
    "SCORES_FILE",
    "ClassAccuracy",
    "Evaluation",
    "EvaluationProtocol",
    "Interval",
    "LoadedCheckpoint",
    "Prediction",
    "SavedScores",
    "cached",
    "check_classes",
    "evaluate",
    "file_digest",
    "file_marks",
    "fused_scores",
    "paired_bootstrap",
    "predict",
    "read_scores",
    "represent",
    "save_scores",
    "summarize_scores",
    "wilson",
    "write_submission",
]
