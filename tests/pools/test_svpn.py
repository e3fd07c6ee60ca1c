"""The SoT head against a direct computation head by head, in float64."""

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import features, hard_features
from covpool import create_pool
from covpool.pools.svpn import SingularPowerPool

SMALL = {"heads": 3, "head_features": 4}


def make(c: int = 5, **options: object) -> SingularPowerPool:
    torch.manual_seed(0)
    pool = create_pool("svpn", c, **SMALL, **options).double()
    pool.weight.data.normal_()
    return pool


def normalized(a: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    """Take one power iteration from `start`, or raise all singular values."""
    if start is None:
        u, s, vh = np.linalg.svd(a)
        s[s <= len(s) * np.spacing(s[0])] = 0
        return u * s**0.5 @ vh
    u = a @ start / np.linalg.norm(a @ start)
    s = np.linalg.norm(a.T @ u)
    first = np.outer(u, a.T @ u)
    return first / s**0.5 + (a - first) / (s**0.5 + 1e-5)


def direct(pool: SingularPowerPool, x: Tensor) -> Tensor:
    weight = pool.weight.detach().numpy().reshape(2, 3, 4, -1)
    start = None if pool.start is None else pool.start.detach().numpy()
    vectors = []
    for item in x.numpy():
        blocks = []
        for left, right in zip(*weight, strict=True):
            q, k = item @ left.T, item @ right.T
            axis = 0 if pool.centering == "channel" else None
            a = (q - q.mean(axis)).T @ (k - k.mean(axis)) / len(item)
            blocks.append(normalized(a, start).ravel())
        vectors.append(np.concatenate(blocks))
    return torch.from_numpy(np.stack(vectors))


@pytest.mark.parametrize("centering", ["channel", "released"])
@pytest.mark.parametrize("rank", [1, None])
@pytest.mark.parametrize("n", [3, 20])
def test_equals_the_computation_head_by_head(n: int, rank: int | None, centering: str) -> None:
    x, pool = features(2, n, 5), make(rank=rank, centering=centering)
    assert pool.out_features == 48
    torch.testing.assert_close(pool(x), direct(pool, x), rtol=1e-9, atol=1e-11)


def test_many_steps_of_full_rank_approach_the_exact_powers() -> None:
    x = features(2, 30, 5)
    exact, iterated = make(rank=None), make(rank=4, iterations=400)
    iterated.weight.data.copy_(exact.weight.data)
    torch.testing.assert_close(iterated(x), exact(x), rtol=1e-4, atol=1e-4)


def test_power_one_is_the_plain_cross_covariance() -> None:
    x, pool = features(2, 9, 5), make(rank=None, alpha=1.0)
    left, right = pool.weight.detach().reshape(2, 3, 4, 5).unbind()
    sigma = torch.from_numpy(np.stack([np.cov(item.numpy().T, bias=True) for item in x])).unsqueeze(1)
    torch.testing.assert_close(pool(x), (left @ sigma @ right.mT).flatten(1))


@pytest.mark.parametrize("options", [{}, {"rank": None}, {"centering": "released"}, {"rank": 2, "iterations": 2}])
def test_gradients_in_features_and_parameters(options: dict[str, object]) -> None:
    pool, x = make(3, **options), features(1, 9, 3).requires_grad_()
    names, values = zip(*pool.named_parameters(), strict=True)
    assert set(names) == {"weight"} | ({"start"} if "rank" not in options or options["rank"] else set())

    def f(x: Tensor, *parameters: Tensor) -> Tensor:
        z: Tensor = torch.func.functional_call(pool, dict(zip(names, parameters, strict=True)), x)
        return z[:, ::7]

    assert torch.autograd.gradcheck(f, (x, *(v.detach().clone().requires_grad_() for v in values)))


@pytest.mark.parametrize("centering", ["channel", "released"])
def test_weights_of_the_positions(centering: str) -> None:
    """A weight of two equals the same position twice."""
    x, pool = features(2, 6, 5), make(centering=centering)
    weights = torch.tensor([1.0, 2.0, 1.0, 1.0, 2.0, 1.0]).double().expand(2, 6)
    torch.testing.assert_close(pool(x, weights=weights), pool(x.repeat_interleave(weights[0].long(), 1)))


def test_defaults_are_those_of_sot_small() -> None:
    pool = create_pool("svpn", 384)
    assert pool.out_features == 6 * 24**2
    assert {key: tuple(p.shape) for key, p in pool.named_parameters()} == {"weight": (288, 384), "start": (24,)}


@pytest.mark.parametrize("rank", [1, None])
@pytest.mark.parametrize("centering", ["channel", "released"])
def test_every_option_is_finite_on_hard_cases(rank: int | None, centering: str) -> None:
    pool = create_pool("svpn", 16, rank=rank, centering=centering, **SMALL)
    for x in hard_features().values():
        x.requires_grad_()
        z = pool(x)
        grads = torch.autograd.grad(z.sum(), (x, *pool.parameters()))
        assert z.isfinite().all() and all(g.isfinite().all() for g in grads)


@pytest.mark.parametrize(
    "option", [{"heads": 0}, {"head_features": 0}, {"alpha": 2.0}, {"centering": "none"}, {"rank": 0}], ids=str
)
def test_wrong_options_are_refused_when_the_pool_is_built(option: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(option))}` must be"):
        create_pool("svpn", 4, **option)
