import torch
from torch import Tensor
from torch.distributions import Normal

from covpool.ops.gaussian_mixture import mixture_moments
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
