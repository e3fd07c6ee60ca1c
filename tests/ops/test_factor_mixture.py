"""The posterior moments against torch's densities, and the fit against scikit-learn's factor analysis."""

import itertools

import pytest
import torch
from sklearn.decomposition import FactorAnalysis
from torch import Tensor
from torch.distributions import Categorical, LowRankMultivariateNormal, MixtureSameFamily, MultivariateNormal

from covpool.ops.factor_mixture import FactorMixture, _start, _step, factor_moments, mfa_em
from covpool.ops.gaussian_mixture import GaussianMixture
from ops.oracles import randn


def mixture(k: int = 4, r: int = 2, c: int = 5) -> tuple[Tensor, Tensor]:
    return randn(k, seed=2).log_softmax(0), randn(k, r + 1, c, seed=1)


def direct(x: Tensor, log_pi: Tensor, basis: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """By c x c covariances and the conditional of the joint normal of x and its factors, one component at a time."""
    log_densities, mean, spread = [], [], []
    for component in basis:
        mu, loadings = component[0], component[1:].T
        s = loadings @ loadings.T + torch.eye(len(mu), dtype=x.dtype)
        log_densities.append(MultivariateNormal(mu, s).log_prob(x))
        gain = loadings.T @ torch.linalg.inv(s)
        mean.append((x - mu) @ gain.T)
        spread.append(torch.eye(loadings.shape[1], dtype=x.dtype) - gain @ loadings)
    g = (log_pi + torch.stack(log_densities, -1)).softmax(-1)
    z = torch.stack(mean, 2)
    z = torch.cat((torch.ones_like(z[..., :1]), z), -1)  # (b, n, k, r + 1)
    cross = torch.einsum("bnk,bnkr,bnc->bkrc", g, z, x)
    second = torch.einsum("bnk,bnkr,bnks->bkrs", g, z, z)
    second[..., 1:, 1:] += g.sum(1)[..., None, None] * torch.stack(spread)
    return g.sum(1), cross, second


def test_equals_the_definition() -> None:
    x = randn(2, 9, 5)
    for found, expected in zip(factor_moments(x, *mixture()), direct(x, *mixture()), strict=True):
        torch.testing.assert_close(found, expected)


def test_more_factors_than_channels() -> None:
    x, parameters = randn(2, 9, 2), mixture(r=4, c=2)
    for found, expected in zip(factor_moments(x, *parameters), direct(x, *parameters), strict=True):
        torch.testing.assert_close(found, expected)


def test_weights_of_positions() -> None:
    x = randn(2, 4, 5)
    found = factor_moments(x, *mixture(), weights=torch.tensor([[1.0, 2.0, 0.0, 0.0]] * 2, dtype=torch.float64))
    for f, e in zip(found, direct(x[:, [0, 1, 1]], *mixture()), strict=True):
        torch.testing.assert_close(f, e)


def test_gradient_of_all() -> None:
    inputs = tuple(t.requires_grad_() for t in (randn(2, 3, 4), *mixture(3, 2, 4)))
    assert torch.autograd.gradcheck(lambda *t: tuple(factor_moments(*t)), inputs)


def test_loadings_far_above_the_noise_in_float32() -> None:
    x, (log_pi, basis) = randn(2, 30, 5), mixture()
    basis[:, 1:] *= 300
    exact = direct(x, log_pi, basis)
    for found, expected in zip(factor_moments(x.float(), log_pi.float(), basis.float()), exact, strict=True):
        assert (found - expected).abs().max() < 1e-3 * expected.abs().max()


def points(m: int = 300, c: int = 5, r: int = 2, seed: int = 0) -> Tensor:
    """From two factor analysers with a common noise."""
    loadings, means = randn(2, r, c, seed=seed + 1), 4 * randn(2, 1, c, seed=seed + 2)
    clouds = randn(2, m // 2, r, seed=seed) @ loadings + means
    return clouds.flatten(0, 1) + 0.3 * randn(m, c, seed=seed + 3)


def log_likelihood(x: Tensor, mixture: FactorMixture) -> Tensor:
    components = LowRankMultivariateNormal(mixture.means, mixture.loadings, mixture.noise.expand_as(mixture.means))
    return MixtureSameFamily(Categorical(mixture.weights), components).log_prob(x).mean()


def test_one_component_is_scikit_learns_factor_analysis() -> None:
    x = randn(300, 2, seed=1) @ randn(2, 5, seed=2) + randn(300, 5, seed=3) * torch.linspace(0.3, 1, 5).double() + 7
    theirs = FactorAnalysis(2, tol=1e-12, max_iter=2000, svd_method="lapack").fit(x.numpy())
    weights, means, loadings, noise = mfa_em(x, 1, 2, iterations=1500)
    torch.testing.assert_close(weights, torch.ones_like(weights))
    torch.testing.assert_close(means[0], x.mean(0))
    covariance = loadings[0] @ loadings[0].T + noise.diag()
    torch.testing.assert_close(covariance, torch.from_numpy(theirs.get_covariance()), rtol=1e-4, atol=1e-4)


def test_no_step_loses_likelihood() -> None:
    x = points()
    values = [float(log_likelihood(x, mfa_em(x, 3, 2, iterations=i))) for i in range(15)]
    assert all(b >= a - 1e-10 for a, b in itertools.pairwise(values))
    assert values[-1] > values[0] + 0.1


def test_ends_at_a_maximum_of_the_likelihood() -> None:
    x = points()
    found = mfa_em(x, 2, 2, iterations=400)
    parameters = [t.clone().requires_grad_() for t in found[1:]]
    gradients = torch.autograd.grad(log_likelihood(x, FactorMixture(found.weights, *parameters)), parameters)
    assert max(float(g.abs().max()) for g in gradients) < 1e-6


def test_recovers_the_covariances_it_was_drawn_from() -> None:
    x = points(20_000)
    found = mfa_em(x, 2, 2, iterations=50)
    truth = randn(2, 2, 5, seed=1).mT
    means = 4 * randn(2, 1, 5, seed=2).squeeze(1)
    order = torch.cdist(means, found.means).argmin(-1)
    assert sorted(order.tolist()) == [0, 1]
    expected = truth @ truth.mT + 0.09 * torch.eye(5, dtype=torch.float64)
    covariances = found.loadings @ found.loadings.mT + found.noise.diag()
    torch.testing.assert_close(covariances[order], expected, rtol=0.1, atol=0.1)
    torch.testing.assert_close(found.noise, torch.full((5,), 0.09, dtype=torch.float64), rtol=0.1, atol=0)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scale_and_offset(scale: float) -> None:
    x = points()
    found, moved = mfa_em(x, 2, 2), mfa_em(scale * (x + 100), 2, 2)
    torch.testing.assert_close(moved.means, scale * (found.means + 100), rtol=1e-6, atol=0)
    torch.testing.assert_close(moved.loadings, scale * found.loadings, rtol=1e-4, atol=1e-6 * scale)
    torch.testing.assert_close(moved.noise, scale**2 * found.noise, rtol=1e-5, atol=0)


def test_degenerate_points_are_finite_and_bounded() -> None:
    dead = points().float()
    dead[:, :2] = 0
    for x in (dead, torch.eye(5).repeat(4, 1), points(60)[:12].float()):
        found = mfa_em(x, 6, 3) if len(x) > 12 else mfa_em(x, 12, 3)
        assert all(t.isfinite().all() and t.dtype == torch.float32 for t in found)
        assert (found.noise >= 0.99e-4 * x.var(0, correction=0).max()).all() and (found.weights > 0).all()
    with pytest.raises(ValueError, match="all the same"):
        mfa_em(torch.ones(10, 2), 2, 1)


def test_the_loadings_start_with_half_of_the_variance() -> None:
    k, factors = 2000, 4
    one = torch.ones(k, 3, dtype=torch.float64)
    start = _start(GaussianMixture(one[:, 0] / k, 0 * one, 8 * one), factors, seed=0)
    torch.testing.assert_close(start.noise, 4 * one[0])
    carried = start.loadings.square().sum(-1).mean(0)  # over 2000 components: the standard error is 0.06
    torch.testing.assert_close(carried, 4 * one[0], atol=0.3, rtol=0)


def test_a_component_of_less_than_the_least_weight_keeps_its_parameters() -> None:
    """A regression on a millionth of a point would be noise."""
    x = randn(1000, 2)
    one = torch.ones(2, dtype=torch.float64)
    means, loadings = torch.stack((0 * one, 3 * one)), 0.1 * randn(2, 2, 1, seed=1)
    weights = torch.tensor([1.0, 1e-9], dtype=torch.float64)
    after = _step(x, FactorMixture(weights, means, loadings, one), torch.tensor(1e-4).double())
    torch.testing.assert_close(after.means[1], means[1])
    torch.testing.assert_close(after.loadings[1], loadings[1])
    assert float(after.weights[1]) == 1e-6 and not torch.equal(after.means[0], means[0])
