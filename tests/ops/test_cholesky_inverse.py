"""covpool.ops._cholesky_inverse: both ways against torch."""

from functools import partial

import pytest
import torch

from covpool.ops._cholesky_inverse import _by_blocks, _whole, cholesky_inverse
from ops.oracles import randn, relative_error


@pytest.mark.parametrize(
    "way", [cholesky_inverse, _whole, *(partial(_by_blocks, block=size) for size in (1, 4, 5, 12))]
)
@pytest.mark.parametrize("c", [1, 4, 12, 13])
def test_the_factor_and_its_inverse(way: object, c: int) -> None:
    m = randn(3, c, c)
    a = m @ m.mT + 0.1 * torch.eye(c, dtype=m.dtype)
    lower, inverse, failed = way(a.tril() + torch.full_like(a, torch.nan).triu(1))
    assert relative_error(lower, torch.linalg.cholesky(a)) <= 1e-13
    assert relative_error(inverse @ lower, torch.eye(c, dtype=m.dtype).expand(3, c, c)) <= 1e-11
    assert torch.equal(lower, lower.tril()) and torch.equal(inverse, inverse.tril()) and not failed.any()


@pytest.mark.parametrize("way", [_whole, partial(_by_blocks, block=2)])
def test_failures_are_reported_alone(way: object) -> None:
    a = torch.eye(5, dtype=torch.float64).repeat(3, 1, 1)
    a[1, 4, 4] = -1
    a[2, 3, 0] = torch.nan
    assert way(a)[2].tolist() == [False, True, True]
    assert cholesky_inverse(a[:0])[0].shape == (0, 5, 5)
