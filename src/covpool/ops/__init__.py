"""The mathematics of covariance pooling as pure functions of tensors, with any leading dimensions, in torch alone."""

from covpool.kernels.precision import PRECISIONS, Precision
from covpool.ops import reference
from covpool.ops._backend import tf32_allowed
from covpool.ops.approximate_root import ROOT_BACKWARDS, RootBackward
from covpool.ops.clip_eigh import clip_eigh
from covpool.ops.covariance import covariance
from covpool.ops.cross_covariance import cross_covariance
from covpool.ops.eigh import eigh
from covpool.ops.gaussian_embedding import gaussian_embedding
from covpool.ops.isqrt_covariance import isqrt_covariance
from covpool.ops.l2_normalize import l2_normalize, unit_length
from covpool.ops.log_cholesky import log_cholesky
from covpool.ops.logm_eigh import logm_eigh
from covpool.ops.lyapunov import lyapunov_solve
from covpool.ops.lyapunov_newton_schulz import lyapunov_newton_schulz
from covpool.ops.orthonormalize_qr import orthonormalize_qr
from covpool.ops.powm_covariance import powm_covariance
from covpool.ops.powm_eigh import powm_eigh
from covpool.ops.powm_power_iteration import powm_power_iteration
from covpool.ops.powm_svd import powm_svd
from covpool.ops.precision import at_least_float32, full_precision, in_autocast, outside_autocast
from covpool.ops.product import product
from covpool.ops.projection_product import projection_product
from covpool.ops.safe_division import one_if_zero, power_or_zero, reciprocal_or_zero
from covpool.ops.shrinkage import shrunk_covariance
from covpool.ops.signed_power import elementwise_power_normalize, signed_power
from covpool.ops.sqrtm_denman_beavers import sqrtm_denman_beavers
from covpool.ops.sqrtm_k_matrix import sqrtm_k_matrix
from covpool.ops.sqrtm_lyapunov import sqrtm_lyapunov
from covpool.ops.sqrtm_newton_schulz import sqrtm_newton_schulz
from covpool.ops.sqrtm_pade import sqrtm_pade
from covpool.ops.sqrtm_taylor import sqrtm_taylor
from covpool.ops.symmetric import symmetrize
from covpool.ops.tensor_sketch import draw_sketch, tensor_sketch, tensor_sketches
from covpool.ops.vech import unvech, vech
from covpool.ops.vn_mle_eigh import vn_mle_eigh

__all__ = [
    "PRECISIONS",
    "ROOT_BACKWARDS",
    "Precision",
    "RootBackward",
    "at_least_float32",
    "clip_eigh",
    "covariance",
    "cross_covariance",
    "draw_sketch",
    "eigh",
    "elementwise_power_normalize",
    "full_precision",
    "gaussian_embedding",
    "in_autocast",
    "isqrt_covariance",
    "l2_normalize",
    "log_cholesky",
    "logm_eigh",
    "lyapunov_newton_schulz",
    "lyapunov_solve",
    "one_if_zero",
    "orthonormalize_qr",
    "outside_autocast",
    "power_or_zero",
    "powm_covariance",
    "powm_eigh",
    "powm_power_iteration",
    "powm_svd",
    "product",
    "projection_product",
    "reciprocal_or_zero",
    "reference",
    "shrunk_covariance",
    "signed_power",
    "sqrtm_denman_beavers",
    "sqrtm_k_matrix",
    "sqrtm_lyapunov",
    "sqrtm_newton_schulz",
    "sqrtm_pade",
    "sqrtm_taylor",
    "symmetrize",
    "tensor_sketch",
    "tensor_sketches",
    "tf32_allowed",
    "unit_length",
    "unvech",
    "vech",
    "vn_mle_eigh",
]
