import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from covpool.ops.factor_mixture import factor_moments
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
