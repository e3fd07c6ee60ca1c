import numpy
import pytest
import torch
from scipy import linalg
from torch import Tensor

from cases import features, hard_features
from covpool import create_pool
from covpool.ops import covariance, unvech


def power(x: Tensor, alpha: float) -> Tensor:
    """Compute vech of the power of each covariance with scipy."""
    rows, columns = numpy.triu_indices(x.shape[-1])
    matrices = [linalg.fractional_matrix_power(numpy.cov(item.numpy().T, bias=True), alpha) for item in x]
    return torch.from_numpy(numpy.stack([m[rows, columns] for m in matrices]))


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.7, 1.0, 1.3])
def test_equals_scipys_power(alpha: float) -> None:
    x = features(2, 30, 6)
    torch.testing.assert_close(create_pool("mpn", 6, alpha=alpha)(x), power(x, alpha), rtol=1e-9, atol=1e-11)


def test_squared_gives_the_covariance_even_if_singular() -> None:
    x = features(2, 5, 8)
    z = unvech(create_pool("mpn", 8)(x))
    torch.testing.assert_close(z @ z, covariance(x))


def test_round_off_is_not_taken_for_an_eigenvalue() -> None:
    """Each channel is repeated, so half of the eigenvalues are zero. The trace of a small power counts the others."""
    x = features(1, 200, 60, dtype=torch.float32).relu().repeat(1, 1, 2)
    default, paper = create_pool("mpn", 120, alpha=1e-6), create_pool("mpn", 120, alpha=1e-6, eps="paper")
    kept = [round(unvech(pool(x))[0].double().trace().item()) for pool in (default, paper)]
    assert kept[0] == 60 < kept[1]


def test_normalizations_give_unit_norm_and_drop_the_scale() -> None:
    x = features(2, 30, 6)
    for normalization, order in (("spectral", 2), ("frobenius", "fro")):
        pool = create_pool("mpn", 6, normalization=normalization)
        norm = torch.linalg.matrix_norm(unvech(pool(x)), ord=order)
        torch.testing.assert_close(norm, torch.ones(2, dtype=torch.float64))
        torch.testing.assert_close(pool(5 * x), pool(x))


def test_alpha_one_of_a_rank_one_covariance_is_the_covariance() -> None:
    x = features(2, 20, 1) * features(2, 1, 4, seed=1)
    torch.testing.assert_close(create_pool("mpn", 4, alpha=1.0)(x), create_pool("cov", 4)(x))


def test_gradient_through_the_features_of_a_singular_covariance() -> None:
    x = features(1, 4, 6).requires_grad_()
    assert torch.autograd.gradcheck(create_pool("mpn", 6), x, atol=1e-6)


def test_learnable_alpha_gets_the_right_gradient() -> None:
    x, pool = features(2, 30, 5), create_pool("mpn", 5, learn_alpha=True).double()
    assert dict(pool.named_parameters()).keys() == {"alpha"}
    alpha = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: torch.func.functional_call(pool, {"alpha": a}, x), alpha)
    pool(x).sum().backward()
    assert pool.alpha.grad is not None and pool.alpha.grad != 0


def test_fixed_alpha_is_not_a_parameter() -> None:
    assert not list(create_pool("mpn", 5).parameters())


def test_the_released_null_gradient_differs_only_for_a_singular_covariance() -> None:
    def gradient(x: Tensor, mode: str) -> Tensor:
        x = x.clone().requires_grad_()
        create_pool("mpn", 6, null_gradient=mode)(x).sum().backward()
        return x.grad

    singular, regular = features(1, 4, 6), features(1, 40, 6)
    assert not torch.allclose(gradient(singular, "released"), gradient(singular, "exact"))
    torch.testing.assert_close(gradient(regular, "released"), gradient(regular, "exact"))


@pytest.mark.parametrize(
    "options",
    [
        {"normalization": normalization, "null_gradient": null_gradient, "eps": eps, "alpha": alpha}
        for normalization in (None, "spectral", "frobenius")
        for null_gradient in ("exact", "released")
        for eps in ("rank", "paper", 1e-3)
        for alpha in (0.3, 1.7)
    ],
)
def test_every_option_is_finite_on_hard_cases(options: dict[str, object]) -> None:
    for x in hard_features().values():
        x.requires_grad_()
        z = create_pool("mpn", 16, **options)(x)
        (dx,) = torch.autograd.grad(z.sum(), x)
        assert z.isfinite().all() and dx.isfinite().all()


@pytest.mark.parametrize("alpha", [0, -1, 2.5])
def test_alpha_outside_its_range_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match=r"`alpha` must be in \(0, 2\]; got"):
        create_pool("mpn", 4, alpha=alpha)


@pytest.mark.parametrize("option", [{"normalization": "fro"}, {"null_gradient": "none"}, {"eps": "machine"}])
def test_wrong_options_are_refused_when_the_pool_is_built(option: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(option))}` must be one of"):
        create_pool("mpn", 4, **option)


@pytest.mark.parametrize("gamma", [0.75, 2.0])
def test_an_empty_mask_gives_zeros_for_every_gamma(gamma: float) -> None:
    """For gamma > 1 the estimate of a zero covariance is not zero, so the mask itself must decide."""
    x, mask = features(2, 9, 4), torch.ones(2, 9, dtype=torch.bool)
    mask[1] = False
    z = create_pool("mpn", 4, gamma=gamma)(x, mask=mask)
    assert z[0].abs().min() > 0 and not z[1].any()
