import pytest
import torch
from torch import nn

from covpool.models._head import last_linear, make_head, replace_last_linear


def test_without_hidden_layers_it_is_one_linear_layer() -> None:
    head = make_head(36, 10)
    assert isinstance(head, nn.Linear)
    assert (head.in_features, head.out_features) == (36, 10)


def test_hidden_layers_have_batch_norm_or_dropout() -> None:
    with_norm, plain = make_head(36, 10, layers=(8, 4)), make_head(36, 10, layers=(8, 4), norm=False)
    assert [type(m) for m in with_norm] == [nn.Linear, nn.BatchNorm1d, nn.ReLU] * 2 + [nn.Linear]
    assert [type(m) for m in plain] == [nn.Linear, nn.ReLU, nn.Dropout] * 2 + [nn.Linear]
    assert sum(p.numel() for p in with_norm.parameters()) == 36 * 8 + 16 + 8 * 4 + 8 + 4 * 10 + 10
    assert sum(p.numel() for p in plain.parameters()) == 36 * 8 + 8 + 8 * 4 + 4 + 4 * 10 + 10


def test_replacing_keeps_all_but_the_last_layer() -> None:
    head = make_head(36, 10, layers=(8,))
    first = head[0].weight.clone()
    head = replace_last_linear(head, 3)
    assert torch.equal(head[0].weight, first)
    assert last_linear(head).out_features == 3


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="num_classes"):
        make_head(36, 0)
    with pytest.raises(ValueError, match="head_layers"):
        make_head(36, 2, layers=(0,))
    with pytest.raises(TypeError, match=r"nn\.Linear"):
        last_linear(nn.Identity())
