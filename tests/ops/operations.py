"""Every operation as a function of features (b, n, c), beside a slow float64 one of a single item (n, c)."""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import scipy.linalg
import scipy.special
import sklearn.covariance
import torch
from torch import Tensor

from covpool import ops
from ops import reference


class Entry(NamedTuple):
    fast: Callable[[Tensor], Tensor]
    slow: Callable[[Tensor], Tensor]
    degree: float | None  # degree of homogeneity in x; None for an operation that is not homogeneous
    condition: float = 1  # growth of round-off where zero eigenvalues are raised to a small eps


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


def _shrunk(estimate: Callable[[np.ndarray], tuple[np.ndarray, float]], x: Tensor) -> Tensor:
    """An estimate of scikit-learn's, which warns about a single position; the covariance of one is zero."""
    return torch.from_numpy(estimate(x.numpy())[0]) if len(x) > 1 else reference.covariance(x)


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


def _buckets_and_signs(order: int, c: int) -> tuple[Tensor, Tensor]:
    i = torch.arange(order * c).reshape(order, c)
    return (7 * i**2 + i) % 64, torch.where(i % 3 == 0, -1.0, 1.0)


def _sketch(x: Tensor, form: Literal["fft", "moment"]) -> Tensor:
    return ops.tensor_sketch(x, *_buckets_and_signs(2, x.shape[-1]), 64, form=form)


def _sketches(x: Tensor) -> Tensor:
    return ops.tensor_sketches(x, *_buckets_and_signs(3, x.shape[-1]), 64)[..., 1:, :]


def _bucket_sums(x: Tensor, order: int) -> Tensor:
    """The sketch of one order, product by product: x_i x_j ... goes to bucket h_1(i) + h_2(j) + ... with its signs."""
    hashes, signs = (t.numpy() for t in _buckets_and_signs(order, x.shape[-1]))
    total = np.zeros(64)
    for row in x.numpy():
        products, buckets = np.ones(1), np.zeros(1, dtype=int)
        for h, s in zip(hashes, signs, strict=True):
            products = np.multiply.outer(products, s * row).ravel()
            buckets = np.add.outer(buckets, h).ravel()
        total += np.bincount(buckets % 64, products, 64)
    return torch.from_numpy(total / len(x))


def _factors(order: int, c: int) -> Tensor:
    return torch.arange(order * c * 5, dtype=torch.float64).cos().reshape(order, c, 5)


def _projected(x: Tensor, order: int) -> Tensor:
    z = np.prod([x.numpy() @ u.numpy() for u in _factors(order, x.shape[-1])], axis=0)
    return torch.from_numpy(z.mean(0))


def _vn_mle(value: float) -> float:
    """The positive root of gamma p^2 + (1 - gamma) p = value at gamma = 3/4."""
    return float(np.roots([0.75, 0.25, -max(value, 0)]).max())


def _regular(a: Tensor) -> Tensor:
    return a + 0.01 * torch.eye(a.shape[-1], dtype=a.dtype)


def _denman_beavers(x: Tensor, steps: int = 5) -> Tensor:
    """sqrt(t) y with the recursion of one eigenvalue, y, z <- (y + 1 / z) / 2, (z + 1 / y) / 2 from l / t, 1."""
    a = reference.covariance(x)
    t = float(a.trace())

    def scalar(value: float) -> float:
        y, z = max(value / t, 1e-30), 1.0
        for _ in range(steps):
            y, z = (y + 1 / z) / 2, (z + 1 / y) / 2
        return y * t**0.5

    return reference.spectral(a, scalar) if t else a


def _by_approximant(x: Tensor, scalar: Callable[[float], float]) -> Tensor:
    """sqrt(t) f(l / t), t = |Sigma|_F, with f written in w = 1 - l / t."""
    a = reference.covariance(x)
    t = float(a.norm())
    return reference.spectral(a, lambda value: t**0.5 * scalar(1 - max(value, 0) / t)) if t else a


def _pade(w: float, order: int = 5) -> float:
    """The approximant of sqrt(1 - w) in partial fractions."""
    angles = np.arange(1, order + 1) * np.pi / (2 * order + 1)
    return float(1 - np.sum(2 / (2 * order + 1) * np.sin(angles) ** 2 * w / (1 - np.cos(angles) ** 2 * w)))


def _taylor(w: float, degree: int = 10) -> float:
    return float(sum(scipy.special.binom(0.5, k) * (-w) ** k for k in range(degree + 1)))


def _skewed(a: Tensor) -> Tensor:
    return a.cumsum(-1)


def _singular_power(x: Tensor) -> Tensor:
    u, s, vh = np.linalg.svd(_skewed(reference.covariance(x)).numpy())
    s[s <= len(s) * np.spacing(s[0])] = 0
    return torch.from_numpy(u * s**0.5 @ vh)


def _start(c: int) -> Tensor:
    return torch.arange(1, c + 1).cos()


def _leading_singular_power(x: Tensor) -> Tensor:
    a, v = _skewed(reference.covariance(x)).numpy(), _start(x.shape[1]).double().numpy()
    u = a @ v / (np.linalg.norm(a @ v) or 1)
    s = np.linalg.norm(a.T @ u)
    first = np.outer(u, a.T @ u)
    return torch.from_numpy(first / (s**0.5 or 1) + (a - first) / (s**0.5 + 1e-5))


def _log_cholesky(x: Tensor) -> Tensor:
    a = _regular(reference.covariance(x)).numpy()
    factor = np.linalg.cholesky(a + 1e-6 * np.trace(a) / len(a) * np.eye(len(a)))
    return torch.from_numpy(np.tril(factor, -1) + np.diag(np.log(np.diag(factor))))


def _sqrtm_lyapunov(x: Tensor, iterations: int = 20) -> Tensor:
    return ops.sqrtm_lyapunov(_regular(_cov(x)), forward="newton_schulz", iterations=iterations)


def _sqrtm_lyapunov_iterative(x: Tensor, steps: int = 20) -> Tensor:
    return ops.sqrtm_lyapunov(_regular(_cov(x)), steps=steps)


def _lyapunov_newton_schulz(x: Tensor, steps: int = 40) -> Tensor:
    return ops.lyapunov_newton_schulz(a := _regular(_cov(x)), a.cumsum(-1), steps=steps)


def _as_float(z: Tensor, like: Tensor) -> Tensor:
    return z.to(torch.promote_types(like.dtype, torch.float32))


OPERATIONS: dict[str, Entry] = {
    "covariance": Entry(_cov, reference.covariance, 2),
    "second_moment": Entry(
        lambda x: ops.covariance(x, centered=False), lambda x: reference.covariance(x, centered=False), 2
    ),
    "cross_covariance": Entry(
        lambda x: ops.cross_covariance(x, x.flip(-1)),
        lambda x: torch.from_numpy(np.cov(x.T, x.flip(-1).T, bias=True)[: x.shape[1], x.shape[1] :]),
        2,
    ),
    "shrunk_ledoit_wolf": Entry(ops.shrunk_covariance, partial(_shrunk, sklearn.covariance.ledoit_wolf), 2),
    "shrunk_oas": Entry(
        lambda x: ops.shrunk_covariance(x, shrinkage="oas"),
        partial(_shrunk, sklearn.covariance.oas),
        2,
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
    "sqrtm_denman_beavers": Entry(lambda x: ops.sqrtm_denman_beavers(_cov(x)), _denman_beavers, 1),
    "sqrtm_k_matrix": Entry(
        lambda x: ops.sqrtm_k_matrix(_cov(x)), lambda x: reference.power(reference.covariance(x), 0.5), 1
    ),
    "sqrtm_lyapunov": Entry(
        _sqrtm_lyapunov, lambda x: reference.power(_regular(reference.covariance(x)), 0.5), None, 5
    ),
    "sqrtm_lyapunov_iterative": Entry(
        _sqrtm_lyapunov_iterative, lambda x: reference.power(_regular(reference.covariance(x)), 0.5), None, 5
    ),
    "clip": Entry(
        lambda x: ops.clip_eigh(_cov(x), low=0.3, high=1.5),
        lambda x: reference.spectral(reference.covariance(x), lambda value: min(max(value, 0.3), 1.5)),
        None,
    ),
    "clip_log": Entry(
        lambda x: ops.clip_eigh(_cov(x), low=0.3, high=1.5, log=True),
        lambda x: reference.spectral(reference.covariance(x), lambda value: np.log(min(max(value, 0.3), 1.5))),
        None,
    ),
    "logm_released": Entry(
        lambda x: ops.logm_eigh(_regular(_cov(x)), null_gradient="released"),
        lambda x: reference.spectral(_regular(reference.covariance(x)), lambda value: np.log(value + 1e-3)),
        None,
        50,
    ),
    "vn_mle": Entry(
        lambda x: ops.vn_mle_eigh(_cov(x), 0.75), lambda x: reference.spectral(reference.covariance(x), _vn_mle), None
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
    "tensor_sketch_moment": Entry(lambda x: _sketch(x, "moment"), lambda x: _bucket_sums(x, 2), 2),
    "tensor_sketch_fft": Entry(lambda x: _sketch(x, "fft"), lambda x: _bucket_sums(x, 2), 2),
    "tensor_sketches": Entry(_sketches, lambda x: torch.stack([_bucket_sums(x, p) for p in (2, 3)]), None),
    "projection_product_positions": Entry(
        lambda x: ops.projection_product(x, _factors(2, x.shape[-1]), form="positions"), lambda x: _projected(x, 2), 2
    ),
    "projection_product_moment": Entry(
        lambda x: ops.projection_product(x, _factors(2, x.shape[-1]), form="moment"), lambda x: _projected(x, 2), 2
    ),
    "projection_product_cubic": Entry(
        lambda x: ops.projection_product(x, _factors(3, x.shape[-1])), lambda x: _projected(x, 3), 3
    ),
    "lyapunov_newton_schulz": Entry(_lyapunov_newton_schulz, _lyapunov, None, 50),
    "sqrtm_pade": Entry(lambda x: ops.sqrtm_pade(_cov(x), backward="autograd"), lambda x: _by_approximant(x, _pade), 1),
    "sqrtm_taylor": Entry(
        lambda x: ops.sqrtm_taylor(_cov(x), backward="autograd"), lambda x: _by_approximant(x, _taylor), 1
    ),
    "powm_svd": Entry(lambda x: ops.powm_svd(_skewed(_cov(x))), _singular_power, 1, 50),
    "powm_power_iteration": Entry(
        lambda x: ops.powm_power_iteration(_skewed(_cov(x)), _start(x.shape[-1])), _leading_singular_power, None
    ),
    "log_cholesky": Entry(
        lambda x: _as_float(ops.log_cholesky(_regular(_cov(x.double()))), x), _log_cholesky, None, 50
    ),
    "epn": Entry(lambda x: ops.elementwise_power_normalize(ops.vech(_cov(x))), _epn, 0),
}

# The compiler unrolls these iterations, so it gets two steps of them instead of as many as they need to converge.
FEW_STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "sqrtm_denman_beavers": lambda x: ops.sqrtm_denman_beavers(_cov(x), iterations=2),
    "sqrtm_lyapunov": partial(_sqrtm_lyapunov, iterations=2),
    "sqrtm_lyapunov_iterative": partial(_sqrtm_lyapunov_iterative, steps=2),
    "lyapunov_newton_schulz": partial(_lyapunov_newton_schulz, steps=2),
}
