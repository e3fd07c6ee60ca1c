"""Cross-covariance pooling against numpy, in float64."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from cases import features
from covpool import create_pool
from covpool.pools import CrossCovariancePool


def direct(x: Tensor, y: Tensor) -> Tensor:
    c = x.shape[-1]
    blocks = [np.cov(i.numpy().T, j.numpy().T, bias=True)[:c, c:] for i, j in zip(x, y, strict=True)]
    return torch.from_numpy(np.stack(blocks)).flatten(1)


def test_one_stream_gives_the_whole_covariance() -> None:
    x = features(2, 9, 5)
    torch.testing.assert_close(CrossCovariancePool(5)(x), direct(x, x))
    full = CrossCovariancePool(5)(x).unflatten(1, (5, 5))
    rows, columns = torch.triu_indices(5, 5)
    torch.testing.assert_close(full[:, rows, columns], create_pool("cov", 5)(x))


def test_two_streams() -> None:
    x, y = features(2, 9, 5), features(2, 9, 3, seed=1) + 10
    pool = CrossCovariancePool((5, 3))
    assert pool.out_features == 15
    torch.testing.assert_close(pool(x, y), direct(x, y))
    unit = create_pool("cross_cov", (5, 3), normalize="l2")(x, y)
    torch.testing.assert_close(unit, direct(x, y) / direct(x, y).norm(dim=1, keepdim=True))


def test_two_streams_with_a_mask_or_weights() -> None:
    x, y = features(2, 9, 5), features(2, 9, 3, seed=1)
    mask = torch.arange(9).expand(2, 9) < 4
    pool, expected = CrossCovariancePool((5, 3)), direct(x[:, :4], y[:, :4])
    torch.testing.assert_close(pool(x, y.masked_fill(~mask.unsqueeze(-1), torch.nan), mask=mask), expected)
    torch.testing.assert_close(pool(x, y, weights=3 * mask.double()), expected)


def test_the_second_map_is_resized_to_the_first() -> None:
    x, y = features(2, 24, 5).mT.unflatten(-1, (4, 6)), features(2, 6, 3, seed=1).mT.unflatten(-1, (2, 3))
    large = interpolate(y, (4, 6), mode="bilinear")
    z = CrossCovariancePool((5, 3))(x, y)
    torch.testing.assert_close(z, direct(x.flatten(2).mT, large.flatten(2).mT))


def test_gradient() -> None:
    x, y = features(1, 6, 3).requires_grad_(), features(1, 6, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(CrossCovariancePool((3, 2)), (x, y))


def test_different_numbers_of_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="same positions; got 9 and 4"):
        CrossCovariancePool((5, 3))(features(2, 9, 5), features(2, 4, 3))
