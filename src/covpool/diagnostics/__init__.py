"""Diagnostics of a network: the first NaN, and the eigenvalues of the covariance before and after a pool."""

from covpool.diagnostics import _normalizations as normalizations  # a namespace: normalizations.power
from covpool.diagnostics._finite import NonFiniteError, check_finite
from covpool.diagnostics._normalizations import logarithm, newton_schulz, power
from covpool.diagnostics._spectra import Histogram, Spectra, log_histogram, pool_spectra, spectrum

__all__ = [
    "Histogram",
    "NonFiniteError",
    "Spectra",
    "check_finite",
    "log_histogram",
    "logarithm",
    "newton_schulz",
    "normalizations",
    "pool_spectra",
    "power",
    "spectrum",
]
