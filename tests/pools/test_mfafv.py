"""MFAFV-Net against autograd of the likelihood, in float64."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from cases import features
from covpool.pools import FactorAnalysersPool, FisherVectorPool

K, C, R = 3, 5, 2


def made(**options: object) -> FactorAnalysersPool:
    torch.manual_seed(0)
    pool = FactorAnalysersPool(C, clusters=K, factors=R, **options).double()
    with torch.no_grad():
        for p in pool.parameters():
            p.copy_(0.7 * torch.randn_like(p))
    return pool


def scores(x: Tensor, logits: Tensor, means: Tensor, loadings: Tensor, log_noise: Tensor) -> Tensor:
    """Return (b, k, r + 1, c): the derivatives of the mean log-likelihood by mu_k and the columns of Lambda_k."""
    rows = []
    for item in x:
        mu, factors = means.detach().requires_grad_(), loadings.detach().requires_grad_()
        covariances = factors @ factors.mT + log_noise.detach().exp().diag()
        p = MixtureSameFamily(Categorical(logits=logits.detach()), MultivariateNormal(mu, covariances))
        d_mu, d_factors = torch.autograd.grad(p.log_prob(item).mean(), (mu, factors))
        rows.append(torch.cat((d_mu.unsqueeze(1), d_factors.mT), 1))
    return torch.stack(rows)


def written_out(x: Tensor, logits: Tensor, means: Tensor, loadings: Tensor, log_noise: Tensor) -> Tensor:
    """Compute the same by the published formulas with c x c inverses, differentiable in all arguments."""
    s = loadings @ loadings.mT + torch.diag(log_noise.exp())
    inverse = torch.linalg.inv(s)
    d = x.unsqueeze(2) - means  # (b, n, k, c)
    y = torch.einsum("kcd,bnkd->bnkc", inverse, d)
    g = (logits - 0.5 * torch.linalg.slogdet(s).logabsdet - 0.5 * (d * y).sum(-1)).softmax(-1)
    of_means = torch.einsum("bnk,bnkc->bkc", g, y)
    matrices = torch.einsum("bnk,bnkc,bnkd->bkcd", g, y, y) - g.sum(1)[..., None, None] * inverse
    return torch.cat((of_means.unsqueeze(2), (matrices @ loadings).mT), 2) / x.shape[1]


def power_normalized(z: Tensor) -> Tensor:
    """Apply the signed square root, whose slope at zero a guard of 1e-8 keeps finite, and unit length."""
    z = z.flatten(1)
    fixed = z.detach()
    y = fixed.sign() * fixed.abs().sqrt() + (z - fixed) / (2 * (fixed.abs() + 1e-8).sqrt())
    return y / y.norm(dim=1, keepdim=True)


def test_the_two_oracles_agree() -> None:
    pool, x = made(), features(2, 9, C)
    torch.testing.assert_close(written_out(x, *pool.parameters()), scores(x, *pool.parameters()))


def test_is_the_gradient_of_the_log_likelihood() -> None:
    pool, x = made(), features(2, 9, C)
    torch.testing.assert_close(pool(x), power_normalized(scores(x, *pool.parameters())), rtol=1e-9, atol=1e-10)


def test_gradients_of_features_and_parameters() -> None:
    pool, x = made(), features(2, 6, C).requires_grad_()
    inputs, g = (x, *pool.parameters()), features(2, 1, pool.out_features, seed=1)[:, 0]
    found = torch.autograd.grad((pool(x) * g).sum(), inputs)
    expected = torch.autograd.grad((power_normalized(written_out(x, *pool.parameters())) * g).sum(), inputs)
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e, rtol=1e-7, atol=1e-9)


def test_without_loadings_the_scores_of_means_equal_the_fisher_vector() -> None:
    pool, x = made(), features(2, 9, C)
    sigma = (0.5 * pool.log_noise).exp().detach()
    fisher = FisherVectorPool(C, clusters=K, variant="fishernet", pre_l2=False).double()
    with torch.no_grad():
        pool.loadings.zero_()
        fisher.logits.copy_(pool.logits)
        fisher.weight.copy_((1 / sigma).expand(K, C))
        fisher.bias.copy_(-pool.means / sigma)
    of_means = fisher(x).unflatten(1, (K, 2, C))[:, :, 0]  # sigma / sqrt(pi) times the score
    score = of_means * pool.logits.softmax(0).sqrt().unsqueeze(-1) / sigma
    found = pool(x).unflatten(1, (K, R + 1, C))
    torch.testing.assert_close(found[:, :, 0].flatten(1), power_normalized(score))
    assert (found[:, :, 1:] == 0).all()


def test_integer_weights_equal_repeated_positions() -> None:
    pool, x = made(), features(2, 3, C)
    weights = torch.tensor([[1.0, 1.0, 2.0]] * 2, dtype=torch.float64)
    expected = power_normalized(scores(x[:, [0, 1, 2, 2]], *pool.parameters()))
    torch.testing.assert_close(pool(x, weights=weights), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_float32_with_a_common_offset(offset: float) -> None:
    pool, x = made().float(), features(2, 49, C, dtype=torch.float32) + offset
    with torch.no_grad():
        pool.means += offset
    exact = power_normalized(scores(x.double(), *(p.double() for p in pool.parameters())))
    assert (pool(x) - exact).abs().max() < 1e-4


def test_a_fitted_mixture_has_no_score_on_its_own_data() -> None:
    """The likelihood is at its maximum; a cloud of other points has a large score."""
    x = torch.cat([features(1, 200, R, seed=s)[0] @ features(1, R, C, seed=9)[0] + 5 * s for s in range(K)])
    x = x + 0.3 * features(1, len(x), C, seed=8)[0]
    pool = FactorAnalysersPool(C, clusters=K, factors=R).double()
    pool.init_from(x)
    fitted = scores(x.unsqueeze(0), *pool.parameters())
    moved = scores(x.unsqueeze(0) + 0.3, *pool.parameters())
    assert fitted.abs().max() < 0.02 * moved.abs().max()


def test_size_and_parameters() -> None:
    with torch.device("meta"):
        pool = FactorAnalysersPool(500)
    assert pool.out_features == 50 * 500 + 50 * 500 * 10
    assert sum(p.numel() for p in pool.parameters()) == 50 + 50 * 500 + 50 * 500 * 10 + 500


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match="`factors` must be a positive integer; got 0"):
        FactorAnalysersPool(4, factors=0)
