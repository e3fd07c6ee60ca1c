"""covpool.ops.shrinkage against scikit-learn, in float64."""

import numpy as np
import pytest
import sklearn.covariance
import torch
from torch import Tensor

from cases import features, hard_features
from covpool.ops import covariance, shrunk_covariance
from covpool.ops.shrinkage import SHRINKAGES, Shrinkage
from ops.oracles import refuses

every_shrinkage = pytest.mark.parametrize("shrinkage", SHRINKAGES)


def oracle(x: Tensor, shrinkage: Shrinkage) -> Tensor:  # (b, n, c) -> (b, c, c)
    estimate = getattr(sklearn.covariance, shrinkage)
    return torch.from_numpy(np.stack([estimate(item.numpy())[0] for item in x]))


def uneven(b: int, n: int, c: int) -> Tensor:
    """Channels of different scale and mean: the covariance is far from a multiple of the identity."""
    return features(b, n, c) * torch.linspace(0.2, 3, c, dtype=torch.float64) + torch.arange(c)


@every_shrinkage
@pytest.mark.parametrize(("n", "c"), [(2, 4), (5, 8), (3, 3), (30, 5), (200, 20), (40, 1)])
def test_equals_scikit_learn(n: int, c: int, shrinkage: Shrinkage) -> None:
    for x in (features(3, n, c), uneven(3, n, c)):
        torch.testing.assert_close(shrunk_covariance(x, shrinkage=shrinkage), oracle(x, shrinkage))


@every_shrinkage
def test_every_intensity_from_none_to_all_occurs(shrinkage: Shrinkage) -> None:
    """The result also agrees with scikit-learn where the intensity is cut at one."""
    estimate = getattr(sklearn.covariance, shrinkage)
    intensities = [estimate(x.numpy())[1] for x in (*features(3, 5, 8), *uneven(3, 200, 20))]
    assert min(intensities) < 0.2 and max(intensities) > 0.6
    white = torch.linalg.qr(features(1, 50, 4) - features(1, 50, 4).mean(1, keepdim=True))[0]
    torch.testing.assert_close(shrunk_covariance(white, shrinkage=shrinkage), oracle(white, shrinkage))
    almost_white = white + 1e-3 * features(1, 50, 4, seed=1)
    assert estimate(almost_white[0].numpy())[1] == 1
    torch.testing.assert_close(shrunk_covariance(almost_white, shrinkage=shrinkage), oracle(almost_white, shrinkage))


@every_shrinkage
def test_trace_stays_and_a_singular_covariance_becomes_regular(shrinkage: Shrinkage) -> None:
    x = features(2, 5, 8)
    z, sigma = shrunk_covariance(x, shrinkage=shrinkage), covariance(x)
    torch.testing.assert_close(z.diagonal(dim1=1, dim2=2).sum(1), sigma.diagonal(dim1=1, dim2=2).sum(1))
    assert torch.linalg.eigvalsh(sigma).min() < 1e-12
    assert torch.linalg.eigvalsh(z).min() > 0.05
    assert torch.equal(z, z.mT)


@every_shrinkage
def test_a_mask_equals_slicing(shrinkage: Shrinkage) -> None:
    x = uneven(2, 12, 4)
    mask = torch.arange(12) < torch.tensor([[5], [9]])
    z = shrunk_covariance(x.masked_fill(~mask.unsqueeze(-1), torch.nan), shrinkage=shrinkage, mask=mask)
    expected = torch.cat([oracle(x[:1, :5], shrinkage), oracle(x[1:, :9], shrinkage)])
    torch.testing.assert_close(z, expected)
    assert (shrunk_covariance(x, shrinkage=shrinkage, mask=torch.zeros_like(mask)) == 0).all()


@every_shrinkage
@pytest.mark.parametrize("n", [3, 7])
def test_gradient_includes_that_of_the_intensity(n: int, shrinkage: Shrinkage) -> None:
    x = uneven(2, n, 4).requires_grad_()
    mask = torch.arange(n) < torch.tensor([[n], [n - 1]])
    assert torch.autograd.gradcheck(lambda x: shrunk_covariance(x, shrinkage=shrinkage), x)
    assert torch.autograd.gradcheck(lambda x: shrunk_covariance(x, shrinkage=shrinkage, mask=mask), x)
    x = uneven(1, n, 3).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: shrunk_covariance(x, shrinkage=shrinkage), x)


@every_shrinkage
@pytest.mark.parametrize("case", hard_features())
def test_finite_on_hard_features_with_finite_gradients(case: str, shrinkage: Shrinkage) -> None:
    for dtype in (torch.float32, torch.float64):
        x = hard_features(dtype=dtype)[case].requires_grad_()
        z = shrunk_covariance(x, shrinkage=shrinkage)
        (dx,) = torch.autograd.grad((z * torch.linspace(-1, 1, 16, dtype=dtype)).sum(), x)
        assert z.isfinite().all() and dx.isfinite().all()


@every_shrinkage
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_the_scale_of_float32_features_does_not_matter(scale: float, shrinkage: Shrinkage) -> None:
    x = uneven(2, 12, 4)
    z = shrunk_covariance((x * scale).float(), shrinkage=shrinkage).double() / scale**2
    torch.testing.assert_close(z, oracle(x, shrinkage), rtol=1e-5, atol=1e-6)


@every_shrinkage
def test_one_position_gives_zero_and_nan_stays_in_its_item(shrinkage: Shrinkage) -> None:
    assert (shrunk_covariance(features(2, 1, 4), shrinkage=shrinkage) == 0).all()
    x = features(2, 9, 4)
    x[0, 3, 1] = torch.nan
    z = shrunk_covariance(x, shrinkage=shrinkage)
    assert z[0].isnan().all()
    torch.testing.assert_close(z[1:], oracle(x[1:], shrinkage))


def test_wrong_use_is_refused() -> None:
    x = features(2, 9, 4)
    with refuses(ValueError, "weighted positions", "mask"):
        shrunk_covariance(x, weights=torch.ones(2, 9))
    with refuses(ValueError, "shrinkage", "ledoit_wolf"):
        shrunk_covariance(x, shrinkage="ledoit")  # type: ignore[arg-type]
