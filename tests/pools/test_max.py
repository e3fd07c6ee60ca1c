import torch

from cases import features
from covpool import create_pool


def test_equals_adaptive_max_pooling() -> None:
    x = torch.randn(2, 8, 5, 7)
    expected = torch.nn.functional.adaptive_max_pool2d(x, 1).flatten(1)
    torch.testing.assert_close(create_pool("max", 8)(x), expected)


def test_a_masked_maximum_is_ignored_even_if_the_rest_is_negative() -> None:
    x = torch.tensor([[[-3.0], [-1.0], [5.0]]])
    keep = torch.tensor([[True, True, False]])
    assert create_pool("max", 1)(x, mask=keep).item() == -1.0


def test_positions_of_weight_zero_are_ignored() -> None:
    x = features(2, 6, 3)
    weights = torch.tensor([0.0, 0.1, 7.0, 0.0, 1.0, 1.0]).expand(2, -1)
    pool = create_pool("max", 3)
    torch.testing.assert_close(pool(x, weights=weights), x[:, [1, 2, 4, 5]].amax(1))
    keep = torch.tensor([True, True, True, True, True, False]).expand(2, -1)
    torch.testing.assert_close(pool(x, weights=weights, mask=keep), x[:, [1, 2, 4]].amax(1))
