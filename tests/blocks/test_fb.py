"""The factorized bilinear layer against double sums, in float64."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from cases import features, hard_features
from covpool.blocks import FactorizedBilinear


def layer(c: int = 5, o: int = 3, rank: int = 4, **options: Any) -> FactorizedBilinear:
    torch.manual_seed(0)
    made = FactorizedBilinear(c, o, rank=rank, **options).double()
    torch.nn.init.normal_(made.bias)
    return made


def maps(b: int = 2, c: int = 5) -> Tensor:
    return features(b, 12, c).mT.reshape(b, c, 3, 4)


def double_sum(fb: FactorizedBilinear, x: Tensor, *, self_terms: bool = True, factor: float = 1.0) -> Tensor:
    """Every product of two inputs, one by one, at every position."""
    b, c = x.shape[:2]
    y = torch.zeros(b, fb.out_features, dtype=torch.float64)
    positions = x.reshape(b, c, -1).unbind(2)
    for position in positions:
        for o in range(fb.out_features):
            quadratic = sum(
                (fb.factors[o, :, i] @ fb.factors[o, :, j]) * position[:, i] * position[:, j]
                for i in range(c)
                for j in range(c)
                if self_terms or i != j
            )
            y[:, o] += fb.bias[o] + position @ fb.weight[o] + factor * quadratic
    return y / len(positions)


@torch.no_grad()
@pytest.mark.parametrize("self_terms", [True, False])
def test_double_sum(self_terms: bool) -> None:
    fb = layer(self_terms=self_terms).eval()
    torch.testing.assert_close(fb(maps()), double_sum(fb, maps(), self_terms=self_terms))
    vectors = features(2, 1, 5)[:, 0]
    torch.testing.assert_close(fb(vectors), double_sum(fb, vectors, self_terms=self_terms))


@torch.no_grad()
def test_without_factors_it_is_linear() -> None:
    fb = layer()
    fb.factors.zero_()
    x = features(4, 1, 5)[:, 0]
    torch.testing.assert_close(fb(x), x @ fb.weight.T + fb.bias)


@torch.no_grad()
def test_rank_one() -> None:
    fb = layer(rank=1, o=1).eval()
    fb.weight.zero_()
    fb.bias.zero_()
    x = features(4, 1, 5)[:, 0]
    torch.testing.assert_close(fb(x)[:, 0], (x @ fb.factors[0, 0]) ** 2)


@torch.no_grad()
def test_maps_in_any_layout_of_memory() -> None:
    fb, x = layer().eval(), maps()
    y = fb(x)
    torch.testing.assert_close(fb(x.flatten(1)), y)
    torch.testing.assert_close(fb(x.to(memory_format=torch.channels_last)), y)
    torch.testing.assert_close(fb(x.flatten(2)[..., torch.randperm(12)]), y)
    assert fb(x[:0]).shape == (0, 3)


@torch.no_grad()
@pytest.mark.parametrize(
    ("compensation", "training", "evaluation"), [("inverted", 4, 1), ("paper", 1, 0.25), ("released", 4, 0.25)]
)
@pytest.mark.parametrize("self_terms", [True, False])
def test_drop_factor(compensation: Any, training: float, evaluation: float, self_terms: bool) -> None:
    fb = layer(drop=0.75, compensation=compensation, self_terms=self_terms)
    x = maps()
    whole = double_sum(fb, x, self_terms=self_terms, factor=evaluation)
    torch.testing.assert_close(fb.eval()(x), whole)
    fb.train()
    seen = set()
    for _ in range(6):
        state = torch.get_rng_state()
        y = fb(x)
        torch.set_rng_state(state)
        kept = torch.empty(4).bernoulli_(0.25).bool()
        seen.add(tuple(kept.tolist()))
        part = copy.deepcopy(fb)
        part.factors[:, ~kept] = 0
        torch.testing.assert_close(y, double_sum(part, x, self_terms=self_terms, factor=training))
    assert len(seen) > 1


def test_without_dropping_training_is_evaluation() -> None:
    fb = layer(drop=0.0)
    assert torch.equal(fb.train()(maps()), fb.eval()(maps()))


@pytest.mark.parametrize("self_terms", [True, False])
def test_gradcheck(self_terms: bool) -> None:
    fb = layer(c=3, o=2, rank=2, self_terms=self_terms).eval()
    x = maps(1, 3).requires_grad_()
    names = dict(fb.named_parameters())

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(fb, dict(zip(names, values, strict=True)), x)

    assert torch.autograd.gradcheck(run, (x, *names.values()))


@pytest.mark.parametrize("name", hard_features())
@pytest.mark.parametrize("self_terms", [True, False])
def test_finite_on_hard_inputs(name: str, self_terms: bool) -> None:
    torch.manual_seed(0)
    fb = FactorizedBilinear(16, 3, rank=2, self_terms=self_terms)
    x = hard_features()[name].mT.requires_grad_()
    y = fb(x)
    gradients = torch.autograd.grad(y.sum(), (x, *fb.parameters()))
    assert y.isfinite().all() and all(g.isfinite().all() for g in gradients)


@torch.no_grad()
@pytest.mark.parametrize("self_terms", [True, False])
def test_autocast_squares_in_float32(self_terms: bool) -> None:
    torch.manual_seed(0)
    fb = FactorizedBilinear(16, 3, rank=2, self_terms=self_terms).eval()
    x = hard_features()["dead_channels"].mT * 500
    with torch.autocast("cpu", torch.float16):
        y = fb(x)
    expected = fb(x)
    assert expected.abs().max() > torch.finfo(torch.float16).max and y.dtype == torch.float32
    torch.testing.assert_close(y, expected, rtol=0.01, atol=0.01 * expected.abs().max().item())


def test_initialisation_as_released() -> None:
    torch.manual_seed(0)
    fb = FactorizedBilinear(256, 100, rank=10)
    assert fb.weight.std().item() == pytest.approx((2 / 256) ** 0.5, rel=0.02)
    assert fb.factors.std().item() == pytest.approx((2 / 2560) ** 0.5, rel=0.02)
    assert not fb.bias.any()


def test_published_defaults() -> None:
    """Half of the paths are dropped in training; the formula of the paper with inverted dropout."""
    torch.manual_seed(0)
    fb, x = FactorizedBilinear(3, 1).double(), features(1, 1, 3)[:, 0]
    assert fb.factors.shape == (1, 20, 3)
    linear = x @ fb.weight.T + fb.bias
    torch.testing.assert_close(fb.eval()(x), linear + (fb.factors[0] @ x[0]).square().sum())
    with torch.no_grad():
        fb.train().factors.fill_(1)  # every path is (sum of x)^2, and counts twice or not at all
        kept = torch.cat([fb(x) - linear for _ in range(200)]) / (2 * x.sum() ** 2)
    torch.testing.assert_close(kept, kept.round())
    assert kept.mean().item() == pytest.approx(10, abs=0.8)  # five standard errors of 200 draws of 20
    assert kept.std().item() == pytest.approx(5**0.5, abs=0.6)


def test_parameters_of_the_published_heads() -> None:
    with torch.device("meta"):
        for rank, millions in ((20, 40.96), (50, 102.4)):
            assert FactorizedBilinear(2048, 1000, rank=rank).factors.numel() == millions * 1e6


def test_copies_and_text() -> None:
    fb = layer(rank=7, drop=0.25).eval()
    for other in (copy.deepcopy(fb), pickle.loads(pickle.dumps(fb))):
        assert torch.equal(other(maps()), fb(maps()))
    assert "rank=7, drop=0.25, self_terms=True, compensation='inverted'" in repr(fb)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "`rank` must be a positive integer"),
        ({"drop": 1.0}, r"`drop` must be a probability in \[0, 1\)"),
        ({"compensation": "invert"}, "did you mean 'inverted'"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FactorizedBilinear(4, 2, **options)


@pytest.mark.parametrize("shape", [(2, 4, 3, 4), (5,), (2, 5, 0)])
def test_wrong_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"must have shape \(b, 5, ...\)"):
        layer()(torch.ones(shape, dtype=torch.float64))
