"""The comparisons: candidates that compute the same thing, with their float64 oracles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from covpool import ops
from covpool.ops import PRECISIONS, reference

EXACT_ROOT = "exact root, covpool eigh"
Function = Callable[[Tensor], Tensor]  # features (b, n, c) -> anything


@dataclass(frozen=True)
class CandidateSet:
    """Several implementations of one function of features. The first is the baseline of the ratio.

    Attributes:
        candidates: Functions of features, by name.
        oracle: Independent implementation to run in float64; one per candidate if they compute different things.
        not_captured: Candidates that synchronize with the host, as torch.linalg.eigh does, and do not fit a CUDA graph.
    """

    candidates: dict[str, Function]
    oracle: Function | dict[str, Function]
    not_captured: tuple[str, ...] = ()

    def oracle_of(self, name: str) -> Function:
        return self.oracle[name] if isinstance(self.oracle, dict) else self.oracle


def _explicit_covariance(x: Tensor) -> Tensor:
    """X^T J X with the n x n centering matrix J, as in the paper."""
    n = x.shape[-2]
    j = torch.eye(n, dtype=x.dtype, device=x.device) / n - 1 / n**2
    return x.mT @ j @ x


def _autograd_power(x: Tensor, alpha: float) -> Tensor:
    """Sigma^alpha by torch.linalg.eigh and its derivative in torch; zero eigenvalues are cut off."""
    eigenvalues, u = torch.linalg.eigh(_explicit_covariance(x))
    threshold = eigenvalues[..., -1:] * (x.shape[-1] * torch.finfo(x.dtype).eps)
    null = eigenvalues <= threshold
    powers = torch.where(null, 0, torch.where(null, 1, eigenvalues) ** alpha)
    return (u * powers.unsqueeze(-2)) @ u.mT


def _autograd_gaussian(x: Tensor) -> Tensor:
    """(Y + eps I)^(1/2) of G2DeNet by torch.linalg.eigh."""
    ones = torch.ones_like(x[..., :1])
    y = torch.cat((x, ones), -1)
    y = y.mT @ y / x.shape[-2]
    eigenvalues, u = torch.linalg.eigh(y + 1e-3 * torch.eye(y.shape[-1], dtype=x.dtype, device=x.device))
    return (u * eigenvalues.clamp(min=0).sqrt().unsqueeze(-2)) @ u.mT


def _isqrt_autograd(x: Tensor) -> Tensor:
    return reference.isqrt_iterated(ops.covariance(x), 5)


def isqrt(device_type: str = "cpu", *, compiled: bool = True, dual: bool = True) -> CandidateSet:
    """iSQRT-COV from features to the representation, N = 5: the paper's equations, plain autograd, and covpool.

    The exact root by eigen-decomposition is a further candidate; it has its own oracle.

    Args:
        device_type: "cpu" compares the forms, "cuda" the precisions of the kernels.
        compiled: Include plain autograd under torch.compile.
        dual: Include the dual form, which is very slow if there are far more positions than channels.
    """

    def vector(function: Function) -> Function:
        return lambda x: ops.vech(function(x))

    def ours(**options: Any) -> Function:
        return lambda x: ops.isqrt_covariance(x, vectorize=True, **options)

    candidates = {"literal": vector(reference.isqrt_literal), "autograd": vector(_isqrt_autograd)}
    if compiled:
        candidates["autograd, compiled"] = torch.compile(vector(_isqrt_autograd), dynamic=False)
    if device_type == "cuda":
        candidates |= {f"covpool {precision}": ours(precision=precision) for precision in PRECISIONS}
        candidates["covpool, torch operations"] = ours(backend="torch")
    else:
        candidates |= {"covpool": ours()} | {
            f"covpool {form}": ours(form=form) for form in ("primal", "dual", "spectral")
        }
    if not dual:
        candidates.pop("covpool dual", None)
    oracles = dict.fromkeys(candidates, vector(_isqrt_autograd))
    candidates[EXACT_ROOT] = vector(lambda x: ops.powm_covariance(x, 0.5))
    oracles[EXACT_ROOT] = vector(lambda x: _autograd_power(x, 0.5))
    return CandidateSet(candidates, oracles)


def mpn(alphas: tuple[float, ...] = (0.5, 0.3)) -> CandidateSet:
    """Exact MPN-COV from features to the representation: torch's eigen-decomposition, and covpool."""

    def plain(alpha: float) -> Function:
        return lambda x: ops.vech(_autograd_power(x, alpha))

    def ours(alpha: float) -> Function:
        return lambda x: ops.vech(ops.powm_covariance(x, alpha))

    first, oracles = alphas[0], {f"covpool, alpha = {alpha}": plain(alpha) for alpha in alphas}
    candidates = {f"covpool, alpha = {alpha}": ours(alpha) for alpha in alphas}
    name = f"autograd eigh, alpha = {first}"
    return CandidateSet({name: plain(first), **candidates}, {name: plain(first), **oracles}, not_captured=(name,))


def operations() -> dict[str, CandidateSet]:
    """The operations that take most of a pool's time, each against a plain implementation."""
    return {
        "covariance": CandidateSet(
            {"explicit J": _explicit_covariance, "covpool": ops.covariance}, _explicit_covariance
        ),
        "sqrtm_newton_schulz": CandidateSet(
            {
                "autograd": lambda x: reference.isqrt_iterated(_explicit_covariance(x), 5),
                "covpool": lambda x: ops.sqrtm_newton_schulz(ops.covariance(x)),
            },
            lambda x: reference.isqrt_iterated(_explicit_covariance(x), 5),
        ),
        "powm_eigh": CandidateSet(
            {
                "autograd eigh": lambda x: _autograd_power(x, 0.5),
                "covpool": lambda x: ops.powm_eigh(ops.covariance(x), 0.5),
                "covpool from features": lambda x: ops.powm_covariance(x, 0.5),
            },
            lambda x: _autograd_power(x, 0.5),
            not_captured=("autograd eigh",),
        ),
        "gaussian_embedding": CandidateSet(
            {
                "autograd eigh": _autograd_gaussian,
                "covpool": ops.gaussian_embedding,
                "covpool newton_schulz": lambda x: ops.gaussian_embedding(x, solver="newton_schulz", iterations=20),
            },
            _autograd_gaussian,
            not_captured=("autograd eigh",),
        ),
    }
