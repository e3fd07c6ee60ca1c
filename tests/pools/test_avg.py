import pytest
import torch

from cases import features
from covpool import create_pool


def test_equals_adaptive_average_pooling() -> None:
    x = torch.randn(2, 8, 5, 7)
    expected = torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
    torch.testing.assert_close(create_pool("avg", 8)(x), expected)


def test_weights_give_the_weighted_mean() -> None:
    x, w = features(2, 9, 4), features(2, 9, 1).squeeze(-1).abs()
    expected = torch.stack([sum(w[b, i] * x[b, i] for i in range(9)) / w[b].sum() for b in range(2)])
    torch.testing.assert_close(create_pool("avg", 4)(x, weights=w), expected)


def test_weights_receive_a_gradient() -> None:
    x, w = features(2, 5, 3), (features(2, 5, 1).squeeze(-1).abs() + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: create_pool("avg", 3)(x, weights=v), w)


def test_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"'avg' has no option 'reduceto'.*did you mean 'reduce_to'"):
        create_pool("avg", 8, reduceto=4)
