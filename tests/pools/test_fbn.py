"""FBN against the double sum over pairs of channels, position by position."""

import pytest
import torch
from torch import Tensor

import covpool


def make(c: int = 5, **options: object) -> covpool.Pool:
    torch.manual_seed(0)
    pool = covpool.create_pool("fbn", c, num_classes=3, rank=2, **options).double().eval()
    torch.nn.init.normal_(pool.layer.bias)
    return pool


def features() -> Tensor:
    return torch.randn(2, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def scores_of(pool: covpool.Pool, x: Tensor, weights: Tensor, self_terms: bool = True) -> Tensor:  # (n, c), (n,)
    """Compute b + sum_i w_i x_i + sum_ij <f_i, f_j> x_i x_j at every position, then the weighted mean."""
    layer, total = pool.layer, torch.zeros(3, dtype=torch.float64)
    for position, weight in zip(x, weights, strict=True):
        for k in range(3):
            score = layer.bias[k] + layer.weight[k] @ position
            for i in range(x.shape[1]):
                for j in range(x.shape[1]):
                    if self_terms or i != j:
                        score = score + layer.factors[k, :, i] @ layer.factors[k, :, j] * position[i] * position[j]
            total[k] += weight * score
    return total


@torch.no_grad()
@pytest.mark.parametrize("self_terms", [True, False])
def test_scores_are_a_double_sum_over_channels(self_terms: bool) -> None:
    pool, x = make(self_terms=self_terms), features()
    uniform = torch.full((7,), 1 / 7, dtype=torch.float64)
    expected = torch.stack([scores_of(pool, item, uniform, self_terms) for item in x])
    torch.testing.assert_close(pool(x), expected)
    weights = torch.rand(2, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    expected = torch.stack([scores_of(pool, item, w / w.sum(), self_terms) for item, w in zip(x, weights, strict=True)])
    torch.testing.assert_close(pool(x, weights=weights), expected)


@torch.no_grad()
def test_scores_are_linear_in_the_representation() -> None:
    pool, x = make(), features()
    z = pool.representation(x)
    forms = torch.einsum("krc,krd->kcd", pool.layer.factors, pool.layer.factors).flatten(1)
    torch.testing.assert_close(pool(x), z @ torch.cat((pool.layer.weight, forms), 1).T + pool.layer.bias)


@torch.no_grad()
def test_the_pool_equals_the_inserted_layer() -> None:
    """Compare the block tanh with the pool fbn to the layer that replaces the classifier."""
    torch.manual_seed(0)
    network = covpool.attach(
        "torchvision/resnet18+tanh", "fbn", 4, keep_last_stride=True, reduce_to=None, rank=3, drop=0.25
    ).eval()
    import torchvision

    model = covpool.insert(torchvision.models.resnet18(num_classes=4), "fb", rank=3, drop=0.25).eval()
    state = network.state_dict()
    ours = {key.removeprefix("features.body."): value for key, value in state.items() if key.startswith("features")}
    ours |= {key.replace("pool.layer", "fc"): value for key, value in state.items() if key.startswith("pool")}
    model.load_state_dict(ours)
    x = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(network(x), model(x))
    assert network.num_classes == 4 and isinstance(network.classifier, torch.nn.Identity)


def test_dropped_paths_are_compensated_in_the_mean() -> None:
    pool, x = make(drop=0.5).train(), features()
    torch.manual_seed(0)
    many = torch.stack([pool(x) for _ in range(4000)]).mean(0)
    torch.testing.assert_close(many, pool.eval()(x), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("wrong", [{"rank": 0}, {"drop": 1.0}, {"num_classes": 0}, {"compensation": "none"}])
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must be"):
        covpool.create_pool("fbn", 4, **wrong)


def test_a_wrong_number_of_scores_is_refused() -> None:
    with pytest.raises(ValueError, match="gives 6 scores for 5 classes: leave `project_to` out"):
        covpool.attach("torchvision/resnet18", "fbn", num_classes=5, project_to=6, rank=2, reduce_to=8)
