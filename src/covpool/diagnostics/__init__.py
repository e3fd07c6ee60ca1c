"""Looking inside a network: where a NaN began, and what a pool does to the eigenvalues of the covariance."""

from covpool.diagnostics import normalizations
from covpool.diagnostics.finite import NonFiniteError, check_finite
from covpool.diagnostics.spectra import Histogram, Spectra, log_histogram, pool_spectra, spectrum

__all__ = [
    "Histogram",
    "NonFiniteError",
    "Spectra",
    "check_finite",
    "log_histogram",
    "normalizations",
    "pool_spectra",
    "spectrum",
]
