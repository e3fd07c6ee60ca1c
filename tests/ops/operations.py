"""Every operation as a function of features (b, n, c), beside a slow float64 one of a single item (n, c)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from covpool import ops
from covpool.ops import reference


class Entry(NamedTuple):
    fast: Callable[[Tensor], Tensor]
    slow: Callable[[Tensor], Tensor]
    degree: float | None  # of homogeneity in x; None where there is none
    condition: float = 1  # how far round-off grows where null eigenvalues rest on a small eps


def _calvo(x: Tensor, eps: float = 0.0) -> Tensor:
    extended = torch.cat((x, torch.ones(len(x), 1, dtype=x.dtype)), 1)
    return extended.T @ extended / len(x) + eps * torch.eye(x.shape[1] + 1, dtype=x.dtype)


def _lovric(x: Tensor) -> Tensor:
    y = _calvo(x, 1e-3)
    _, log_determinant = np.linalg.slogdet(y.numpy())
    return y * float(np.exp(-log_determinant / len(y)))


def _cholesky(x: Tensor) -> Tensor:
    sigma = reference.covariance(x).numpy() + 1e-3 * np.eye(x.shape[1])
    top = np.concatenate((np.linalg.cholesky(sigma), x.numpy().mean(0)[:, None]), 1)
    return torch.from_numpy(np.concatenate((top, np.eye(x.shape[1] + 1)[-1:])))


def _upper(a: Tensor) -> Tensor:
    return a[torch.ones_like(a).triu() == 1]


def _normalize(power: Tensor, norm: float) -> Tensor:
    return power / norm if norm else power


def _spectral_norm(a: Tensor) -> float:
    return float(np.linalg.norm(a.numpy(), 2))


def _epn(x: Tensor) -> Tensor:
    z = _upper(reference.covariance(x)).numpy()
    y = np.sign(z) * np.sqrt(np.abs(z))
    return torch.from_numpy(y / max(np.linalg.norm(y), 1e-12))


def _lyapunov(x: Tensor) -> Tensor:
    a = _regular(reference.covariance(x))
    return torch.from_numpy(scipy.linalg.solve_continuous_lyapunov(a.numpy(), a.cumsum(-1).numpy()))


def _cov(x: Tensor) -> Tensor:
    return ops.covariance(x)


def _root(x: Tensor, norm: str = "trace", postcomp: bool = True) -> Tensor:
    a = reference.covariance(x)
    return reference.isqrt_spectral(a, 5, norm, postcomp) if a.any() else a


def _regular(a: Tensor) -> Tensor:
    return a + 0.01 * torch.eye(a.shape[-1], dtype=a.dtype)


OPERATIONS: dict[str, Entry] = {
    "covariance": Entry(_cov, reference.covariance, 2),
    "second_moment": Entry(
        lambda x: ops.covariance(x, centered=False), lambda x: reference.covariance(x, centered=False), 2
    ),
    "powm": Entry(lambda x: ops.powm_eigh(_cov(x), 0.5), lambda x: reference.power(reference.covariance(x), 0.5), 1),
    "powm_spectral": Entry(
        lambda x: ops.powm_eigh(_cov(x), 0.7, normalization="spectral"),
        lambda x: _normalize(p := reference.power(reference.covariance(x), 0.7), _spectral_norm(p)),
        0,
    ),
    "powm_frobenius": Entry(
        lambda x: ops.powm_eigh(_cov(x), 0.7, normalization="frobenius"),
        lambda x: _normalize(p := reference.power(reference.covariance(x), 0.7), float(p.norm())),
        0,
    ),
    "powm_dual": Entry(
        lambda x: ops.powm_covariance(x, 0.5, form="dual"), lambda x: reference.power(reference.covariance(x), 0.5), 1
    ),
    "powm_dual_spectral": Entry(
        lambda x: ops.powm_covariance(x, 0.7, form="dual", normalization="spectral"),
        lambda x: _normalize(p := reference.power(reference.covariance(x), 0.7), _spectral_norm(p)),
        0,
    ),
    "powm_dual_frobenius": Entry(
        lambda x: ops.powm_covariance(x, 0.3, form="dual", normalization="frobenius"),
        lambda x: _normalize(p := reference.power(reference.covariance(x), 0.3), float(p.norm())),
        0,
    ),
    "logm": Entry(
        lambda x: ops.logm_eigh(_cov(x)),
        lambda x: reference.spectral(reference.covariance(x), lambda value: np.log(max(value, 0) + 1e-3)),
        None,
        50,
    ),
    "sqrtm": Entry(lambda x: ops.sqrtm_newton_schulz(_cov(x)), _root, 1),
    "isqrt_primal": Entry(lambda x: ops.isqrt_covariance(x, form="primal"), _root, 1),
    "isqrt_dual": Entry(lambda x: ops.isqrt_covariance(x, form="dual"), _root, 1),
    "isqrt_spectral": Entry(lambda x: ops.isqrt_covariance(x, form="spectral"), _root, 1),
    "isqrt_frobenius": Entry(
        lambda x: ops.isqrt_covariance(x, prenorm="frobenius"), lambda x: _root(x, "frobenius"), 1
    ),
    "isqrt_bare": Entry(lambda x: ops.isqrt_covariance(x, postcomp=False), lambda x: _root(x, postcomp=False), 0),
    "lyapunov": Entry(lambda x: ops.lyapunov_solve(a := _regular(_cov(x)), a.cumsum(-1)), _lyapunov, None, 50),
    "gaussian_sqrt": Entry(ops.gaussian_embedding, lambda x: reference.power(_calvo(x, 1e-3), 0.5), None),
    "gaussian_newton_schulz": Entry(
        lambda x: ops.gaussian_embedding(x, solver="newton_schulz"),
        lambda x: reference.isqrt_spectral(_calvo(x, 1e-3), 5),
        None,
    ),
    "gaussian_calvo": Entry(lambda x: ops.gaussian_embedding(x, kind="calvo"), _calvo, None),
    "gaussian_lovric": Entry(lambda x: ops.gaussian_embedding(x, kind="lovric"), _lovric, None, 50),
    "gaussian_nakayama": Entry(lambda x: ops.gaussian_embedding(x, kind="nakayama"), lambda x: _calvo(x)[:-1], None),
    "gaussian_log": Entry(
        lambda x: ops.gaussian_embedding(x, kind="log"), lambda x: reference.spectral(_calvo(x, 1e-3), np.log), None, 50
    ),
    "gaussian_cholesky": Entry(lambda x: ops.gaussian_embedding(x, kind="cholesky"), _cholesky, None),
    "vech": Entry(lambda x: ops.vech(_cov(x)), lambda x: _upper(reference.covariance(x)), 2),
    "epn": Entry(lambda x: ops.elementwise_power_normalize(ops.vech(_cov(x))), _epn, 0),
}
