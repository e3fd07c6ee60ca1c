import pytest
from torch import nn

from covpool.models._head import last_linear, make_classifier, make_head
from covpool.pools import create_pool


def test_without_hidden_layers_it_is_one_linear_layer() -> None:
    head = make_classifier(36, 10)
    assert isinstance(head, nn.Linear)
    assert (head.in_features, head.out_features) == (36, 10)


def test_hidden_layers_have_batch_norm_or_dropout() -> None:
    with_norm, plain = make_classifier(36, 10, layers=(8, 4)), make_classifier(36, 10, layers=(8, 4), norm=False)
    assert [type(m) for m in with_norm] == [nn.Linear, nn.BatchNorm1d, nn.ReLU] * 2 + [nn.Linear]
    assert [type(m) for m in plain] == [nn.Linear, nn.ReLU, nn.Dropout] * 2 + [nn.Linear]
    assert sum(p.numel() for p in with_norm.parameters()) == 36 * 8 + 16 + 8 * 4 + 8 + 4 * 10 + 10
    assert sum(p.numel() for p in plain.parameters()) == 36 * 8 + 8 + 8 * 4 + 4 + 4 * 10 + 10


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="num_classes"):
        make_classifier(36, 0)
    with pytest.raises(ValueError, match="head_layers"):
        make_classifier(36, 2, layers=(0,))
    with pytest.raises(TypeError, match=r"nn\.Linear"):
        last_linear(nn.Identity())


def test_a_head_is_a_pool_and_a_classifier() -> None:
    pool, classifier = make_head("cov", (512,), 10)
    assert pool.in_features == 512 and pool.out_features == 256 * 257 // 2
    assert last_linear(classifier).in_features == pool.out_features
    scores, nothing = make_head("lrbp", (32,), 4, reduce_to=None)
    assert scores.output == "scores" and scores.out_features == 4 and isinstance(nothing, nn.Identity)


def test_a_pool_object_is_used_as_it_is() -> None:
    pool = create_pool("isqrt", 16)
    made, classifier = make_head(pool, (16,), 3)
    assert made is pool and last_linear(classifier).in_features == 136
    with pytest.raises(ValueError, match=r"must take the 32 channels .* got a IterativeSquareRootPool for 16"):
        make_head(pool, (32,), 3)
    with pytest.raises(TypeError, match="leave iterations, reduce_to out"):
        make_head(pool, (16,), 3, reduce_to=8, iterations=3)
