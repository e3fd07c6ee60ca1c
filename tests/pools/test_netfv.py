"""NetFV and FisherNet against autograd of the likelihood, in float64."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from cases import features, generator
from covpool.pools import FisherVectorPool

K, C = 3, 4


def mixture() -> tuple[Tensor, Tensor, Tensor]:
    """Return pi, mu and sigma."""
    pi = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    return pi, features(1, K, C, seed=1)[0], 0.5 + features(1, K, C, seed=2)[0].abs()


def made(variant: str = "fishernet", **options: object) -> FisherVectorPool:
    pool = FisherVectorPool(C, clusters=K, variant=variant, **({"pre_l2": False} | options)).double()
    pi, mu, sigma = mixture()
    with torch.no_grad():
        pool.logits.copy_(pi.log() + 5)  # the softmax removes the constant
        pool.weight.copy_(1 / sigma)
        pool.bias.copy_(-mu / sigma)
    return pool


def fisher_vector(x: Tensor) -> Tensor:
    """Return (b, k, 2 c): the derivatives of the log-likelihood times (sigma / sqrt(pi), 1 / sqrt(2 pi))."""
    rows = []
    for item in x:
        pi, mu, sigma = mixture()
        mu.requires_grad_()
        log_sigma = sigma.log().requires_grad_()
        p = MixtureSameFamily(Categorical(pi), Independent(Normal(mu, log_sigma.exp()), 1))
        d_mu, d_log_sigma = torch.autograd.grad(p.log_prob(item).sum(), (mu, log_sigma))
        root = pi.sqrt().unsqueeze(-1)
        rows.append(torch.cat((sigma / root * d_mu, d_log_sigma / (2**0.5 * root)), -1))
    return torch.stack(rows)


def power_normalized(z: Tensor) -> Tensor:
    """Apply the signed square root, whose slope at zero a guard of 1e-8 keeps finite, and unit length."""
    fixed = z.detach()
    y = fixed.sign() * fixed.abs().sqrt() + (z - fixed) / (2 * (fixed.abs() + 1e-8).sqrt())
    return y / y.norm(dim=1, keepdim=True)


def test_fishernet_is_the_normalized_gradient_of_the_log_likelihood() -> None:
    x = features(2, 9, C)
    torch.testing.assert_close(made()(x), fisher_vector(x).flatten(1), rtol=1e-12, atol=1e-12)


def test_netfv_adds_the_signed_square_root_and_unit_length() -> None:
    x = features(2, 9, C)
    torch.testing.assert_close(made("netfv")(x), power_normalized(fisher_vector(x).flatten(1)))


def test_one_component_standardizes_mean_and_variance() -> None:
    pool, x = FisherVectorPool(C, clusters=1, variant="fishernet", pre_l2=False).double(), features(2, 9, C)
    sigma, mu = pool.weight.detach().reciprocal(), 0.3
    with torch.no_grad():
        pool.bias.copy_(-mu / sigma)
    u = (x - mu) / sigma
    expected = torch.cat((u.sum(1), (u**2 - 1).sum(1) / 2**0.5), -1)
    torch.testing.assert_close(pool(x), expected)


def test_samples_of_the_mixture_have_an_expected_score_of_zero() -> None:
    pi, mu, sigma = mixture()
    n = 200_000
    k = torch.multinomial(pi, n, replacement=True, generator=generator(3))
    x = mu[k] + sigma[k] * features(1, n, C, seed=4)[0]
    score = made()(x.unsqueeze(0)) / n
    assert score.abs().max() < 5 * n**-0.5  # each has variance about one


def written_out(x: Tensor, logits: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute NetFV from all positions, components and channels, differentiable in all arguments."""
    u = weight * x.unsqueeze(2) + bias
    pi = logits.softmax(0)
    g = (pi.log() + weight.abs().log().sum(-1) - 0.5 * u.square().sum(-1)).softmax(-1) / pi.sqrt()
    z = torch.cat((g.unsqueeze(-1) * u, g.unsqueeze(-1) * (u * u - 1) / 2**0.5), -1).sum(1)
    return power_normalized(z.flatten(1))


def gradients(z: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    direction = features(*z.shape, 1, seed=1).squeeze(-1).to(z.dtype)
    return torch.autograd.grad((z * direction).sum(), inputs)


def test_gradients_of_features_and_parameters() -> None:
    pool, x = made("netfv"), features(2, 5, C).requires_grad_()
    inputs = (x, *pool.parameters())
    for found, expected in zip(gradients(pool(x), inputs), gradients(written_out(*inputs), inputs), strict=True):
        torch.testing.assert_close(found, expected)


def test_float32_on_features_after_a_relu() -> None:
    """Channels that are zero for a component have a score of exactly zero; round-off would change the slope."""
    x = (features(4, 60, 16) + 2 * features(4, 1, 16, seed=1)).relu().float()
    pool = FisherVectorPool(16, clusters=4)
    pool.init_from(x.flatten(0, 1))
    x = x[:, :20].requires_grad_()
    z = pool(x)
    exact_inputs = tuple(t.detach().double().requires_grad_() for t in (x, *pool.parameters()))
    exact = written_out(*exact_inputs)
    for found, expected in zip((z, *gradients(z, (x,))), (exact, *gradients(exact, exact_inputs[:1])), strict=True):
        assert (found - expected).norm() < 1e-5 * expected.norm()


def test_fishernet_takes_unit_features_and_sums_over_positions() -> None:
    x = features(2, 9, C)
    assert FisherVectorPool(C, variant="fishernet").pre_l2 and not FisherVectorPool(C).pre_l2
    pool, bare = made(pre_l2=True), made()
    torch.testing.assert_close(pool(x), bare(x / x.norm(dim=-1, keepdim=True)))
    torch.testing.assert_close(bare(torch.cat((x, x), 1)), 2 * bare(x))


def test_masks_and_weights_of_the_sum() -> None:
    pool, x = made(), features(2, 9, C)
    mask = torch.arange(9).expand(2, 9) < 4
    torch.testing.assert_close(pool(x, mask=mask), fisher_vector(x[:, :4]).flatten(1))
    torch.testing.assert_close(pool(x, weights=7 * mask.double()), fisher_vector(x[:, :4]).flatten(1))
    uneven = torch.tensor([[1.0, 3.0] + [0.0] * 7] * 2, dtype=torch.float64)  # as 16 / 10 positions
    mean = fisher_vector(x[:, [0, 1, 1, 1]]).flatten(1) / 4
    torch.testing.assert_close(pool(x, weights=uneven), 1.6 * mean)


def test_weights_have_a_lower_bound() -> None:
    pool, x = made("netfv"), features(2, 9, C).requires_grad_()
    with torch.no_grad():
        pool.weight[0] = 0
        pool.weight[1, 0] = -1e-12
        floored = pool.weight.clone()
        floored[0], floored[1, 0] = 1e-7, -1e-7
    z = pool(x)
    torch.testing.assert_close(z, written_out(x, pool.logits, floored, pool.bias))
    z.cumsum(1).sum().backward()
    assert z.isfinite().all() and x.grad is not None and x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in pool.parameters())


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_float32_with_an_offset(offset: float) -> None:
    x, pool = features(2, 49, C) + offset, made("netfv")
    with torch.no_grad():
        pool.bias -= pool.weight * offset
    exact = pool(x)
    assert (pool.float()(x.float()) - exact).abs().max() < (3e-6 if offset == 0 else 2e-3)  # b rounds at 100 w


def test_init_from_data() -> None:
    pool, x = made(), features(1, 300, C)[0]
    pi, mu, sigma = mixture()
    pool.init_from(x, weights=pi, means=mu, variances=sigma**2)
    torch.testing.assert_close(pool.logits.detach().softmax(0), pi)
    torch.testing.assert_close(1 / pool.weight.detach(), sigma)
    torch.testing.assert_close(-pool.bias.detach() / pool.weight.detach(), mu)
    torch.testing.assert_close(pool(x.unsqueeze(0)), fisher_vector(x.unsqueeze(0)).flatten(1))

    pool.init_from(x, weights=pi, means=mu, variances=torch.zeros_like(sigma))
    bound = (1e-4 * x.var(0, correction=0).max()).sqrt()
    torch.testing.assert_close(1 / pool.weight.detach(), bound.expand(K, C))


def test_a_fitted_mixture_has_nearly_no_score_on_its_own_data() -> None:
    """The likelihood is at its maximum, so the Fisher vector of all data is near zero."""
    x = torch.cat([features(1, 200, C, seed=s)[0] + 4 * s for s in range(K)]).unsqueeze(0)
    pool = FisherVectorPool(C, clusters=K, variant="fishernet", pre_l2=False).double()
    pool.init_from(x[0])
    assert pool(x).abs().max() / 600 < 1e-3


def test_published_size_and_parameters() -> None:
    with torch.device("meta"):
        pool = FisherVectorPool(512)
    assert pool.out_features == 65_536
    assert sum(p.numel() for p in pool.parameters()) == 2 * 64 * 512 + 64
    fishernet = FisherVectorPool(2048, reduce_to=128, variant="fishernet")
    assert fishernet.out_features == 16_384
    weight = fishernet.weight.detach()
    assert (weight.mean() - 1).abs() < 1e-3 and (weight.std() - 0.01).abs() < 1e-3 and not fishernet.bias.any()
    assert not fishernet.logits.any()  # equal weights


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match="variant"):
        FisherVectorPool(4, variant="fv")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="together"):
        made().init_from(features(1, 9, C)[0], means=torch.zeros(K, C))
    with pytest.raises(ValueError, match=r"`variances` must have shape \(3, 4\); got \(3,\)"):
        made().init_from(features(1, 9, C)[0], weights=torch.ones(K), means=torch.zeros(K, C), variances=torch.ones(K))
