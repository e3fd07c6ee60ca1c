"""The mathematics of covariance pooling as pure functions of tensors: batched, any leading dimensions, torch alone."""

from covpool.ops import reference
from covpool.ops.covariance import covariance
from covpool.ops.gaussian_embedding import gaussian_embedding
from covpool.ops.isqrt_covariance import isqrt_covariance
from covpool.ops.logm_eigh import logm_eigh
from covpool.ops.lyapunov import lyapunov_solve
from covpool.ops.powm_covariance import powm_covariance
from covpool.ops.powm_eigh import powm_eigh
from covpool.ops.signed_power import elementwise_power_normalize, signed_power
from covpool.ops.sqrtm_newton_schulz import sqrtm_newton_schulz
from covpool.ops.symmetric import symmetrize
from covpool.ops.vech import unvech, vech

__all__ = [
    "covariance",
    "elementwise_power_normalize",
    "gaussian_embedding",
    "isqrt_covariance",
    "logm_eigh",
    "lyapunov_solve",
    "powm_covariance",
    "powm_eigh",
    "reference",
    "signed_power",
    "sqrtm_newton_schulz",
    "symmetrize",
    "unvech",
    "vech",
]
