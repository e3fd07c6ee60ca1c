"""The posterior moments against torch's densities, and the fit against scikit-learn's from the same start."""

import itertools
import warnings

import pytest
import torch
from sklearn.mixture import GaussianMixture as TheirMixture
from torch import Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from covpool.ops.gaussian_mixture import GaussianMixture, gmm_em, mixture_moments
from ops.oracles import randn


def mixture() -> tuple[Tensor, Tensor, Tensor]:
    """log pi, w and b of four components in three channels, one w negative as training may leave it."""
    w = 0.5 + randn(4, 3, seed=1).abs()
    w[0, 0] *= -1
    return randn(4, seed=2).log_softmax(0), w, randn(4, 3, seed=3)


def direct(x: Tensor, log_pi: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """By torch's own normal densities, with every (position, component, channel) written out."""
    log_density = Normal(-b / w, 1 / w.abs()).log_prob(x.unsqueeze(2)).sum(-1)
    g = (log_pi + log_density).softmax(-1)
    u = w * x.unsqueeze(2) + b
    return g.sum(1), (g.unsqueeze(-1) * u).sum(1), (g.unsqueeze(-1) * u * u).sum(1)


def test_equals_the_definition() -> None:
    x = randn(2, 9, 3)
    for found, expected in zip(mixture_moments(x, *mixture()), direct(x, *mixture()), strict=True):
        torch.testing.assert_close(found, expected)


def test_weights_of_positions() -> None:
    x = randn(2, 4, 3)
    found = mixture_moments(x, *mixture(), weights=torch.tensor([[1.0, 2.0, 0.0, 0.0]] * 2, dtype=torch.float64))
    expected = direct(x[:, [0, 1, 1]], *mixture())
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e)


def test_gradient_of_all() -> None:
    inputs = tuple(t.requires_grad_() for t in (randn(2, 3, 3), *mixture()))
    assert torch.autograd.gradcheck(lambda *t: tuple(mixture_moments(*t)), inputs)


def test_an_offset_that_all_share_costs_no_accuracy() -> None:
    x, (log_pi, w, _) = randn(2, 40, 3, dtype=torch.float32) + 1e3, mixture()
    means = (randn(4, 3, seed=3) + 1e3).float()
    log_pi, w = log_pi.float(), w.float().abs()
    # b = -w mean rounds at 1e3, so the exact answer starts from the rounded b
    b = -w * means
    exact = direct(x.double(), log_pi.double(), w.double(), b.double())
    for found, expected in zip(mixture_moments(x, log_pi, w, b), exact, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)


def test_one_wide_component_does_not_move_the_middle() -> None:
    """The mean of a component with w at its floor may be anywhere."""
    x, (log_pi, w, b) = randn(2, 9, 3, dtype=torch.float32), (t.float() for t in mixture())
    w[1] = 1e-7
    exact = direct(x.double(), log_pi.double(), w.double(), b.double())
    for found, expected in zip(mixture_moments(x, log_pi, w, b), exact, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


def test_a_channel_that_is_dead_for_a_component_keeps_an_exact_zero() -> None:
    x = randn(2, 40, 3, dtype=torch.float32).abs()
    x[..., 0] = 0
    log_pi, w, b = (t.float() for t in mixture())
    w[1, 0], b[1, 0] = 100, 0  # mean zero, narrow; the others have other means
    assert (mixture_moments(x, log_pi, w, b).first[:, 1, 0] == 0).all()


def points(m: int = 240, c: int = 3, seed: int = 0) -> Tensor:
    """Three overlapping clouds of different widths."""
    centers = 3 * randn(3, c, seed=seed + 1)
    widths = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64).repeat(m // 3)
    return centers.repeat(m // 3, 1) + widths[:, None] * randn(m, c, seed=seed)


def log_likelihood(x: Tensor, mixture: GaussianMixture) -> float:
    components = Independent(Normal(mixture.means, mixture.variances.sqrt()), 1)
    return float(MixtureSameFamily(Categorical(mixture.weights), components).log_prob(x).mean())


@pytest.mark.parametrize("iterations", [1, 10])
def test_equals_scikit_learn_from_the_same_start(iterations: int) -> None:
    x = points()
    start = gmm_em(x, 4, iterations=0)
    theirs = TheirMixture(
        4,
        covariance_type="diag",
        tol=0,
        reg_covar=0,
        max_iter=iterations,
        weights_init=start.weights.numpy(),
        means_init=start.means.numpy(),
        precisions_init=(1 / start.variances).numpy(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged, as intended
        theirs.fit(x.numpy())
    ours = gmm_em(x, 4, iterations=iterations, start=start)
    for found, expected in zip(ours, (theirs.weights_, theirs.means_, theirs.covariances_), strict=True):
        torch.testing.assert_close(found, torch.from_numpy(expected), rtol=1e-8, atol=1e-10)


def test_the_start_is_the_hard_assignment() -> None:
    x = torch.tensor([[0.0], [2.0], [10.0], [11.0], [12.0]], dtype=torch.float64)
    weights, means, variances = gmm_em(x, 2, iterations=0)
    order = means.flatten().argsort()
    torch.testing.assert_close(weights[order], torch.tensor([0.4, 0.6], dtype=torch.float64))
    torch.testing.assert_close(means[order].flatten(), torch.tensor([1.0, 11.0], dtype=torch.float64))
    torch.testing.assert_close(variances[order].flatten(), torch.tensor([1.0, 2 / 3], dtype=torch.float64))


def test_the_usual_seed_is_zero() -> None:
    x = points()
    means = gmm_em(x, 5, iterations=1).means
    assert torch.equal(means, gmm_em(x, 5, iterations=1, seed=0).means)
    assert not torch.equal(means, gmm_em(x, 5, iterations=1, seed=1).means)


def test_no_step_loses_likelihood() -> None:
    x = points()
    values = [log_likelihood(x, gmm_em(x, 5, iterations=i)) for i in range(12)]
    assert all(b >= a - 1e-12 for a, b in itertools.pairwise(values))
    assert values[-1] > values[0] + 1e-3


def test_variances_and_weights_have_their_bounds() -> None:
    x = torch.cat((torch.zeros(30, 2), points(60, 2).float() + 20))  # many equal points
    weights, _, variances = gmm_em(x, 6)
    torch.testing.assert_close(variances.min(), 1e-4 * x.var(0, correction=0).max())
    assert (weights >= 1e-6).all() and weights.dtype == torch.float32
    distinct = gmm_em(torch.tensor([[0.0], [1.0]]).repeat(5, 1), 4)
    assert all(t.isfinite().all() for t in distinct) and (distinct.weights > 0).all()


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scale_and_offset(scale: float) -> None:
    x = points()
    weights, means, variances = gmm_em(x, 3)
    moved = gmm_em(scale * (x + 100), 3)
    torch.testing.assert_close(moved.weights, weights, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(moved.means, scale * (means + 100), rtol=1e-6, atol=0)
    torch.testing.assert_close(moved.variances, scale**2 * variances, rtol=1e-6, atol=0)


def test_points_that_are_all_the_same_are_refused() -> None:
    with pytest.raises(ValueError, match="all the same"):
        gmm_em(torch.ones(10, 2), 2)


def test_a_number_of_components_that_is_not_positive_is_refused() -> None:
    for start in (None, gmm_em(points(), 2)):
        with pytest.raises(ValueError, match="`components` must be a positive integer; got 0"):
            gmm_em(points(), 0, start=start)
