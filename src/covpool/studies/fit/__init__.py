"""Fit: a pool and a linear classifier on the frozen features of a backbone, saved as an ordinary checkpoint."""

from covpool.studies.fit._choice import Candidate as Candidate
from covpool.studies.fit._files import FitResult as FitResult
from covpool.studies.fit._fit import fit as fit
from covpool.studies.fit._fit import run_fit as run_fit
from covpool.studies.fit._settings import Fit as Fit
from covpool.studies.fit._settings import read_fit as read_fit
