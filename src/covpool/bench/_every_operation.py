"""Every operation of covpool.ops as a function of features. Operations on matrices are applied to the covariance."""

import torch
from torch import Tensor

from covpool import ops
from covpool.bench._candidates import Function

SKETCH = 256  # length of sketches and of products of projections
EXPONENT = 0.5  # of elementwise powers


def every_operation(channels: int, device: torch.device) -> dict[str, Function]:
    """Functions of features (b, n, channels) by name, the covariance first: operations on matrices contain it."""
    start = torch.ones(channels, device=device)
    factors = torch.randn(2, channels, SKETCH, generator=torch.Generator().manual_seed(1)).to(device)
    hashes, signs = (drawn.to(device) for drawn in ops.draw_sketch(2, channels, SKETCH))
    of_matrices: dict[str, Function] = {
        "sqrtm_newton_schulz": ops.sqrtm_newton_schulz,
        "sqrtm_denman_beavers": ops.sqrtm_denman_beavers,
        "sqrtm_lyapunov": lambda a: ops.sqrtm_lyapunov(a, forward="newton_schulz", iterations=15),
        "sqrtm_pade": ops.sqrtm_pade,
        "sqrtm_taylor": ops.sqrtm_taylor,
        "sqrtm_k_matrix": ops.sqrtm_k_matrix,
        "powm_eigh": lambda a: ops.powm_eigh(a, 0.5),
        "powm_svd": lambda a: ops.powm_svd(a, 0.5),
        "powm_power_iteration": lambda a: ops.powm_power_iteration(a, start.to(a.dtype)),
        "logm_eigh": ops.logm_eigh,
        "log_cholesky": ops.log_cholesky,
        "clip_eigh": ops.clip_eigh,
        "vn_mle_eigh": lambda a: ops.vn_mle_eigh(a, 0.75),
        "lyapunov_solve": lambda a: ops.lyapunov_solve(_definite(a), a),
        "lyapunov_newton_schulz": lambda a: ops.lyapunov_newton_schulz(_definite(a), a),
        "symmetrize": ops.symmetrize,
        "vech": ops.vech,
        "unvech": lambda a: ops.unvech(ops.vech(a)),
        "signed_power": lambda a: ops.signed_power(ops.vech(a), EXPONENT),
        "elementwise_power_normalize": lambda a: ops.elementwise_power_normalize(ops.vech(a), rho=EXPONENT),
    }
    of_features: dict[str, Function] = {
        "cross_covariance": lambda x: ops.cross_covariance(x, x.flip(-1)),
        "shrunk_covariance": ops.shrunk_covariance,
        "isqrt_covariance": ops.isqrt_covariance,
        "powm_covariance": lambda x: ops.powm_covariance(x, 0.5),
        "gaussian_embedding": ops.gaussian_embedding,
        "orthonormalize_qr": lambda x: ops.orthonormalize_qr(x[..., : channels // 2, :].mT),
        "projection_product": lambda x: ops.projection_product(x, factors.to(x.dtype)),
        "tensor_sketch": lambda x: ops.tensor_sketch(x, hashes, signs.to(x.dtype), SKETCH),
        "tensor_sketches": lambda x: ops.tensor_sketches(x, hashes, signs.to(x.dtype), SKETCH),
    }
    return {
        "covariance": ops.covariance,
        **{name: _after_covariance(function) for name, function in of_matrices.items()},
        **of_features,
    }


def _after_covariance(function: Function) -> Function:
    return lambda x: function(ops.covariance(x))


def _definite(a: Tensor) -> Tensor:
    return a + torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
