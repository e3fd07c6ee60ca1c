import pytest
import torch

from covpool.models._flatten import FlattenPool


def test_the_order_is_that_of_torch_flatten() -> None:
    x = torch.randn(2, 5, 3, 4)
    pool = FlattenPool(5, positions=12)
    assert pool.out_features == 60
    assert torch.equal(pool(x), x.flatten(1))


def test_another_grid_or_a_mask_is_refused() -> None:
    pool = FlattenPool(5, positions=12)
    with pytest.raises(ValueError, match="12 positions; got 9"):
        pool(torch.randn(2, 5, 3, 3))
    with pytest.raises(ValueError, match="no mask"):
        pool(torch.randn(2, 5, 3, 4), mask=torch.ones(2, 12, dtype=torch.bool))
