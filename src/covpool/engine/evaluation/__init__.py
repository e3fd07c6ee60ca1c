"""Evaluating checkpoints on a data set, and predicting the classes of single images."""

from covpool.engine.evaluation._evaluate import EvaluationProtocol as EvaluationProtocol
from covpool.engine.evaluation._evaluate import LoadedCheckpoint as LoadedCheckpoint
from covpool.engine.evaluation._evaluate import check_classes as check_classes
from covpool.engine.evaluation._evaluate import evaluate as evaluate
from covpool.engine.evaluation._evaluate import fused_scores as fused_scores
from covpool.engine.evaluation._intervals import Interval as Interval
from covpool.engine.evaluation._intervals import bootstrap as bootstrap
from covpool.engine.evaluation._intervals import wilson as wilson
from covpool.engine.evaluation._metrics import calibration_error as calibration_error
from covpool.engine.evaluation._predict import Prediction as Prediction
from covpool.engine.evaluation._predict import predict as predict
from covpool.engine.evaluation._representations import represent as represent
from covpool.engine.evaluation._summary import Evaluation as Evaluation
from covpool.engine.evaluation._summary import summarize_scores as summarize_scores
from covpool.engine.evaluation._svm import fit_svm as fit_svm
from covpool.engine.evaluation._tensor_files import SCORES_FILE as SCORES_FILE
from covpool.engine.evaluation._tensor_files import SavedScores as SavedScores
from covpool.engine.evaluation._tensor_files import cached as cached
from covpool.engine.evaluation._tensor_files import file_digest as file_digest
from covpool.engine.evaluation._tensor_files import image_marks as image_marks
from covpool.engine.evaluation._tensor_files import read_scores as read_scores
from covpool.engine.evaluation._tensor_files import save_scores as save_scores
from covpool.engine.evaluation._tensor_files import write_submission as write_submission
