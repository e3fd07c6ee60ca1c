"""Sums over an epoch, and the gradient norm at the input of the pool."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import covpool
from covpool.engine.training._meter import Meter, means
from covpool.models._network import Network


def network() -> Network:
    torch.manual_seed(0)
    return Network(nn.Conv2d(3, 4, 3), covpool.create_pool("isqrt", 4), nn.Linear(10, 5))


def run(model: Network, meter: Meter, x: Tensor, y: Tensor, scale: float = 1.0, cuts: int = 1) -> list[float]:
    for part, wanted in zip(x.chunk(cuts), y.chunk(cuts), strict=True):
        logits = model(part)
        loss = cross_entropy(logits, wanted)
        meter.add(loss, logits, wanted)
        (loss * scale / cuts).backward()
        meter.finish()
    return meter.sums.tolist()


def expected(model: Network, x: Tensor, y: Tensor) -> tuple[float, float, float]:
    """The mean loss, accuracy and |d loss_i / d X_i|, computed image by image."""
    losses, hits, norms = [], [], []
    for image, wanted in zip(x, y, strict=True):
        features = model.features(image[None]).detach().requires_grad_()
        logits = model.forward_head(model.forward_pool(features))
        loss = cross_entropy(logits, wanted[None])
        (gradient,) = torch.autograd.grad(loss, features)
        losses.append(loss.item())
        hits.append(float(logits.argmax() == wanted))
        norms.append(gradient.norm().item())
    return sum(losses) / len(x), sum(hits) / len(x), sum(norms) / len(x)


@pytest.mark.parametrize(("scale", "cuts"), [(1.0, 1), (65536.0, 1), (1.0, 3)])
def test_against_image_by_image(scale: float, cuts: int) -> None:
    """For any loss scaling and number of micro-batches."""
    model, x, y = network(), torch.randn(6, 3, 9, 9), torch.arange(6) % 5
    meter = Meter(model.pool, torch.device("cpu"))
    found = means(run(model, meter, x, y, scale, cuts))
    loss, accuracy, norm = expected(model, x, y)
    assert found["loss"] == pytest.approx(loss, rel=1e-5)
    assert found["accuracy"] == pytest.approx(accuracy)
    assert found["gradient_norm_pool"] == pytest.approx(norm, rel=1e-4)


def test_targets_of_mixed_images() -> None:
    model, x = network(), torch.randn(3, 3, 9, 9)
    shares = torch.tensor([[0.6, 0.4, 0, 0, 0], [0, 0, 0.3, 0.7, 0], [0, 0, 0, 0, 1.0]])
    meter = Meter(model.pool, torch.device("cpu"))
    found = means(run(model, meter, x, shares))
    assert found["accuracy"] == pytest.approx(float((model(x).argmax(1) == torch.tensor([0, 3, 4])).float().mean()))


def test_frozen_features_have_no_gradient_norm() -> None:
    model = network()
    model.features.requires_grad_(False)
    found = means(run(model, Meter(model.pool, torch.device("cpu")), torch.randn(2, 3, 9, 9), torch.tensor([0, 1])))
    assert "gradient_norm_pool" not in found


def test_means_since_the_last_logged_step() -> None:
    assert means([6.0, 3.0, 8.0, 5.0, 8.0], [2.0, 1.0, 4.0, 1.0, 4.0]) == {
        "loss": 1.0,
        "accuracy": 0.5,
        "gradient_norm_pool": 1.0,
    }


def test_a_closed_meter_does_not_watch_the_pool() -> None:
    model = network()
    meter = Meter(model.pool, torch.device("cpu"))
    meter.close()
    run(model, meter, torch.randn(2, 3, 9, 9), torch.tensor([0, 1]))
    assert meter.sums.tolist()[3:] == [0.0, 0.0]


def test_compiled_network() -> None:
    model, x, y = network(), torch.randn(6, 3, 9, 9), torch.arange(6) % 5
    meter = Meter(model.pool, torch.device("cpu"))
    compiled = torch.compile(model, backend="aot_eager")
    logits = compiled(x)
    loss = cross_entropy(logits, y)
    meter.add(loss, logits, y)
    loss.backward()
    meter.finish()
    assert means(meter.sums.tolist())["gradient_norm_pool"] == pytest.approx(expected(model, x, y)[2], rel=1e-4)
