"""Linear classifiers of pooled features, fitted to convergence: logistic regression and SVMs."""

from covpool.engine.classifiers._cross_validation import CrossValidated as CrossValidated
from covpool.engine.classifiers._cross_validation import fit_cross_validated as fit_cross_validated
from covpool.engine.classifiers._logistic import LinearClassifier as LinearClassifier
from covpool.engine.classifiers._logistic import fit_logistic as fit_logistic
