"""HIHCA against its polynomials term by term, in float64."""

import math

import pytest
import torch
from torch import Tensor

from cases import features
from covpool import create_pool
from covpool.pools import HigherOrderIntegrationPool


def make(in_features: int | tuple[int, ...], **options: object) -> HigherOrderIntegrationPool:
    """Make a small float64 pool with random factors."""
    torch.manual_seed(0)
    pool = HigherOrderIntegrationPool(in_features, **{"size": 6, **options}).double()
    with torch.no_grad():
        for factor in pool.factors:
            factor += 0.3 * torch.randn_like(factor)
    return pool


def polynomial(x: Tensor, factors: Tensor) -> Tensor:  # (n, c), (r, c, D) -> (D,)
    """Compute the mean over positions of the product of inner products, term by term."""
    size = factors.shape[-1]
    products = [
        math.prod((torch.dot(row, factor[:, k]) for factor in factors), start=torch.ones((), dtype=x.dtype))
        for row in x
        for k in range(size)
    ]
    return torch.stack(products).unflatten(0, (-1, size)).mean(0)


def epn(z: Tensor) -> Tensor:
    y = z.sign() * z.abs().sqrt()
    return y / y.norm(dim=-1, keepdim=True)


@pytest.mark.parametrize("degree", [2, 3, 4])
@pytest.mark.parametrize("n", [1, 4, 30])
def test_every_component_is_a_mean_of_products(n: int, degree: int) -> None:
    x, pool = features(2, n, 5), make(5, degree=degree)
    assert len(pool.factors) == 1 and pool.factors[0].shape == (degree, 5, 6)
    torch.testing.assert_close(pool(x), epn(torch.stack([polynomial(item, pool.factors[0]) for item in x])))


def test_degree_two_is_the_inner_product_of_two_rank_one_matrices() -> None:
    x, pool = features(2, 9, 5), make(5)
    u, v = pool.factors[0].detach()
    moment = torch.stack([torch.stack([torch.outer(row, row) for row in item]).mean(0) for item in x])
    expected = [[(torch.outer(u[:, k], v[:, k]) * m).sum() for k in range(6)] for m in moment]
    torch.testing.assert_close(pool(x).detach(), epn(torch.tensor(expected, dtype=torch.float64)))


def test_an_untrained_pool_is_random_maclaurin() -> None:
    """Products of two random sign projections; unit length removes the factor 1/D."""
    x, pool = features(2, 9, 5), HigherOrderIntegrationPool(5, size=64).double()
    w1, w2 = pool.factors[0].detach().sign()
    torch.testing.assert_close(pool(x).detach(), epn(((x @ w1) * (x @ w2)).mean(1)))


def test_degree_one_is_the_mean() -> None:
    x, pool = features(2, 9, 5), make(5, degree=1)
    assert not list(pool.parameters()) and pool.out_features == 5
    torch.testing.assert_close(pool(x), epn(x.mean(1)))


def test_initial_factors_are_signs_over_the_root_of_the_size() -> None:
    factors = HigherOrderIntegrationPool(32, size=1024).factors[0]
    assert torch.equal(factors.abs(), torch.full_like(factors, 1 / 32))
    assert factors.sign().mean().abs() < 0.02  # five standard deviations of 65536 signs
    assert ((factors[0] * factors[1]).sum() * 1024 / 32768).abs() < 0.03


def test_published_size_of_the_hypercolumns_of_vgg16() -> None:
    with torch.device("meta"):
        pool = create_pool("hihca", (512, 512))
    assert pool.out_features == 8192
    assert sum(p.numel() for p in pool.parameters()) == 2 * 1024 * 8192 + 2


def test_all_degrees_are_concatenated() -> None:
    x, pool = features(2, 9, 5), make(5, degree=3, homogeneous=False)
    assert pool.out_features == 5 + 6 + 6
    parts = [torch.stack([polynomial(item, factors) for item in x]) for factors in pool.factors]
    torch.testing.assert_close(pool(x), epn(torch.cat([x.mean(1), *parts], -1)))


def test_hypercolumns_are_scaled_and_concatenated() -> None:
    x, y = features(2, 9, 5), features(2, 9, 3, seed=1)
    pool = make((5, 3))
    assert pool.scales.tolist() == [0.5, 1.0] and pool.factors[0].shape == (2, 8, 6)
    column = torch.cat((0.5 * x, y), -1)
    torch.testing.assert_close(pool(x, y), epn(torch.stack([polynomial(item, pool.factors[0]) for item in column])))
    assert make((5, 3, 4)).scales.tolist() == [0.5, 0.5, 1.0]
    assert make((5, 3), scales=(2, 3)).scales.tolist() == [2, 3]


def test_hypercolumns_use_the_first_grid() -> None:
    pool, x = make((5, 3)), features(2, 24, 5).mT.unflatten(-1, (4, 6))
    y = features(2, 6, 3, seed=1).mT.unflatten(-1, (2, 3))
    # Twice as many pixels, each a quarter of the way between two old ones; the outermost are at the edge.
    up = {m: torch.zeros(2 * m, m, dtype=torch.float64) for m in (2, 3)}
    for m, matrix in up.items():
        for i in range(2 * m):
            place = min(max(i / 2 - 0.25, 0), m - 1)
            matrix[i, int(place)] += 1 - place % 1
            matrix[i, min(int(place) + 1, m - 1)] += place % 1
    large = up[2] @ y @ up[3].T
    torch.testing.assert_close(pool(x, y), pool(x, large))


@pytest.mark.parametrize("homogeneous", [True, False])
def test_hed_has_separate_polynomials_for_each_level_on_its_own_grid(homogeneous: bool) -> None:
    x, y = features(2, 12, 5), features(2, 6, 3, seed=1)
    pool = make((5, 3), fusion="hed", homogeneous=homogeneous)
    assert [f.shape[1] for f in pool.factors] == [5, 3]
    z = pool(x.mT.unflatten(-1, (3, 4)), y.mT.unflatten(-1, (3, 2)))
    parts = []
    for level, factors in zip((0.5 * x, y), pool.factors, strict=True):
        parts += ([] if homogeneous else [level.mean(1)]) + [torch.stack([polynomial(i, factors) for i in level])]
    torch.testing.assert_close(z, epn(torch.cat(parts, -1)))
    torch.testing.assert_close(pool(x, y), z)  # levels may have different numbers of tokens


@pytest.mark.parametrize("fusion", ["hc", "hed"])
def test_a_mask_equals_slicing_in_all_levels_even_if_masked_positions_are_nan(fusion: str) -> None:
    x, y = features(2, 9, 5), features(2, 9, 3, seed=1)
    mask = torch.arange(9).expand(2, 9) < 4
    pool = make((5, 3), fusion=fusion, homogeneous=False)
    poisoned = [f.masked_fill(~mask.unsqueeze(-1), torch.nan).requires_grad_() for f in (x, y)]
    z = pool(*poisoned, mask=mask)
    torch.testing.assert_close(z, pool(x[:, :4], y[:, :4]))
    torch.testing.assert_close(pool(x, y, weights=2 * mask.double()), z)
    grads = torch.autograd.grad(z.cumsum(-1).sum(), (*poisoned, *pool.parameters()))
    assert all(g.isfinite().all() for g in grads)
    assert (pool(x, y, mask=torch.zeros_like(mask)) == 0).all()


def test_a_mask_of_the_first_map_is_resized_to_the_other_grids() -> None:
    pool = make((5, 3), fusion="hed")
    x, y = features(1, 16, 5).mT.unflatten(-1, (4, 4)), features(1, 4, 3, seed=1).mT.unflatten(-1, (2, 2))
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    mask[:, :, :2] = True
    torch.testing.assert_close(pool(x, y, mask=mask), pool(x[..., :2], y[..., :1]))


def test_gradients_of_features_factors_and_scales() -> None:
    x, y = (features(1, 6, 3) + 2).requires_grad_(), (features(1, 6, 2, seed=1) + 2).requires_grad_()
    pool = make((3, 2), degree=3)
    g = features(1, 1, 6, seed=2)[0]
    inputs = (x, y, pool.factors[0], pool.scales)
    column = torch.cat((pool.scales[0] * x, pool.scales[1] * y), -1)
    expected = torch.autograd.grad(epn(polynomial(column[0], pool.factors[0])[None]), inputs, g)
    # the published guard of 1e-8 in the slope of the square root
    for found, truth in zip(torch.autograd.grad(pool(x, y), inputs, g), expected, strict=True):
        torch.testing.assert_close(found, truth, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"degree": 0}, "`degree` must be a positive integer; got 0"),
        ({"size": 0}, "`size` must be a positive integer; got 0"),
        ({"fusion": "hcc"}, "`fusion` must be one of"),
        ({"scales": (1.0,)}, "one number for each; got 1 for 2"),
    ],
)
def test_wrong_options_are_refused(option: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HigherOrderIntegrationPool((4, 4), **option)


def test_one_level_has_no_scale() -> None:
    assert make(4).scales is None
    with pytest.raises(ValueError, match="got 1 for 1"):
        HigherOrderIntegrationPool(4, scales=(1.0,))
