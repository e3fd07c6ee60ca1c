"""Diagnostics of a network: the first NaN, and the eigenvalues of the covariance before and after a pool."""

from covpool.diagnostics._attribution import Attribution as Attribution
from covpool.diagnostics._attribution import attribute as attribute
from covpool.diagnostics._finite import NonFiniteError as NonFiniteError
from covpool.diagnostics._finite import check_finite as check_finite
from covpool.diagnostics._spectra import Histogram as Histogram
from covpool.diagnostics._spectra import Spectra as Spectra
from covpool.diagnostics._spectra import log_histogram as log_histogram
from covpool.diagnostics._spectra import pool_spectra as pool_spectra
from covpool.diagnostics._spectra import spectrum as spectrum
from covpool.diagnostics.normalizations import logarithm as logarithm
from covpool.diagnostics.normalizations import newton_schulz as newton_schulz
from covpool.diagnostics.normalizations import power as power
