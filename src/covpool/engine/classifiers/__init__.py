"""Linear classifiers of pooled features, fitted to convergence: logistic regression and SVMs."""

from covpool.engine.classifiers._cross_validation import CrossValidated, assign_folds, fit_cross_validated
from covpool.engine.classifiers._linear import LinearClassifier
from covpool.engine.classifiers._logistic import fit_logistic

__all__ = ["CrossValidated", "LinearClassifier", "assign_folds", "fit_cross_validated", "fit_logistic"]
