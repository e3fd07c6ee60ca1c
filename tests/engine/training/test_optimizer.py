import pytest
import torch
from torch import nn

import covpool
from covpool.engine.training._build import freeze
from covpool.engine.training._optimizer import make_optimizer, set_lr
from covpool.models._network import Network
from covpool.recipe import Optimizer


@pytest.fixture
def network() -> Network:
    torch.manual_seed(0)
    return Network(nn.Conv2d(3, 4, 3), covpool.create_pool("isqrt", 4, reduce_to=2), nn.Linear(3, 5))


def test_sgd_is_torchs_with_the_head_faster(network: Network) -> None:
    """Against the formula: v <- m v + g + wd w, w <- w - lr v."""
    settings = Optimizer(lr=0.1, momentum=0.9, weight_decay=0.01, head_factor=5)
    optimizer = make_optimizer(network, settings)
    rates = {"features": 0.1, "pool": 0.1, "classifier": 0.5}
    expected = {name: (p.detach().double(), torch.zeros_like(p).double()) for name, p in network.named_parameters()}
    for factor in (1.0, 0.5):
        set_lr(optimizer, factor)
        optimizer.zero_grad()
        network(torch.randn(2, 3, 8, 8)).square().sum().backward()
        for name, p in network.named_parameters():
            w, v = expected[name]
            assert p.grad is not None
            v = 0.9 * v + p.grad.double() + 0.01 * w
            expected[name] = w - factor * rates[name.split(".")[0]] * v, v
        optimizer.step()
    for name, p in network.named_parameters():
        torch.testing.assert_close(p.detach().double(), expected[name][0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["adamw", "lamb", "lion"])
def test_optimizers_of_timm(network: Network, name: str) -> None:
    optimizer = make_optimizer(network, Optimizer(name=name, lr=0.01, head_factor=3, decay_norms=False))
    assert {g["name"]: g["lr"] for g in optimizer.param_groups}["classifier"] == pytest.approx(0.03)
    assert all(g["weight_decay"] == 0 for g in optimizer.param_groups if "not decayed" in g["name"])
    before = [p.detach().clone() for p in network.parameters()]
    network(torch.randn(2, 3, 8, 8)).square().sum().backward()
    optimizer.step()
    assert all(not torch.equal(b, p) for b, p in zip(before, network.parameters(), strict=True))


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_the_classifier_may_decay_on_its_own(network: Network, name: str) -> None:
    settings = Optimizer(name=name, weight_decay=5e-4, head_weight_decay=0.0)
    decays = {g["name"]: g["weight_decay"] for g in make_optimizer(network, settings).param_groups}
    assert decays == {"features": 5e-4, "pool": 5e-4, "classifier": 0.0}
    scoring = Network(nn.Conv2d(3, 4, 3), covpool.create_pool("lrbp", 4, num_classes=5), nn.Identity())
    decays = {g["name"]: g["weight_decay"] for g in make_optimizer(scoring, settings).param_groups}
    assert decays == {"features": 5e-4, "pool": 0.0}  # this pool is the classifier


def test_frozen_parts_are_not_among_its_parameters(network: Network) -> None:
    freeze(network, ["features", "pool"])
    groups = make_optimizer(network, Optimizer()).param_groups
    assert [g["name"] for g in groups] == ["classifier"]
    freeze(network, ["features", "pool", "classifier"])
    with pytest.raises(ValueError, match="nothing is left to learn"):
        make_optimizer(network, Optimizer())


def test_mistakes(network: Network) -> None:
    with pytest.raises(ValueError, match="timm has no optimizer 'adamv'"):
        make_optimizer(network, Optimizer(name="adamv"))
    with pytest.raises(ValueError, match=r"`optimizer.options` = .'no': 1. does not fit 'sgd'"):
        make_optimizer(network, Optimizer(options={"no": 1}))


def test_optimizers_that_cannot_be_used_are_refused(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="'adahessian' needs second derivatives"):
        make_optimizer(network, Optimizer(name="adahessian"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="'bnbadam' cannot be used here: CUDA required"):
        make_optimizer(network, Optimizer(name="bnbadam"))
