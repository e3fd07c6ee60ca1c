"""covpool.ops.positions: masks and weights."""

import numpy as np
import pytest
import torch

from covpool.ops.positions import center, count, keep_positions, mean, zero_if_empty
from ops.oracles import randn, refuses

X = randn(2, 5, 3)
MASK = torch.tensor([[True, False, True, True, False], [False, True, True, False, False]])
WEIGHTS = torch.rand(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_without_mask_and_weights_positions_are_uniform_without_a_copy() -> None:
    x, w = keep_positions(X, None, None)
    assert x is X
    assert w is None


def test_weights_sum_to_one() -> None:
    _, w = keep_positions(X, None, WEIGHTS)
    np.testing.assert_allclose(w, WEIGHTS.numpy() / WEIGHTS.numpy().sum(1, keepdims=True))


def test_the_sum_of_half_precision_weights_does_not_overflow() -> None:
    x = X.half()
    _, w = keep_positions(x, None, torch.full((2, 5), 40000.0))
    assert w is not None and w.dtype == torch.float16 and torch.equal(w, torch.full_like(w, 0.2))
    _, wide = keep_positions(x, None, WEIGHTS, torch.float32)
    np.testing.assert_allclose(wide, WEIGHTS.numpy() / WEIGHTS.numpy().sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf")])
def test_weights_that_are_negative_or_not_finite_are_refused(bad: float) -> None:
    weights = WEIGHTS.clone()
    weights[1, 0] = bad
    with refuses(ValueError, "`weights`", "finite and not negative"):
        keep_positions(X, None, weights)
    keep_positions(X, MASK, weights)  # this position is masked
    torch.vmap(lambda x, w: keep_positions(x, None, w)[1])(X, weights)  # cannot be checked


def test_mask_zeroes_features_and_weights() -> None:
    poisoned = torch.where(MASK[..., None], X, torch.nan)
    x, w = keep_positions(poisoned, MASK, None)
    assert torch.equal(x, X * MASK[..., None])
    np.testing.assert_allclose(w, MASK.numpy() / MASK.numpy().sum(1, keepdims=True))


def test_mask_and_weights_together() -> None:
    _, w = keep_positions(X, MASK, WEIGHTS)
    kept = WEIGHTS.numpy() * MASK.numpy()
    np.testing.assert_allclose(w, kept / kept.sum(1, keepdims=True))


def test_weights_at_masked_positions_may_be_nan() -> None:
    _, w = keep_positions(X, MASK, torch.where(MASK, WEIGHTS, torch.nan))
    assert torch.equal(w, keep_positions(X, MASK, WEIGHTS)[1])


@pytest.mark.parametrize("how", ["mask", "weights"])
def test_nothing_kept_gives_weights_zero_and_finite_gradients(how: str) -> None:
    x, weights = X.clone().requires_grad_(), torch.zeros(2, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.zeros(2, 5, dtype=torch.bool)
    _, w = keep_positions(x, mask, None) if how == "mask" else keep_positions(x, None, weights)
    assert w is not None
    assert torch.equal(w, torch.zeros_like(w))
    z = center(x, w).sum() + w.sum()
    for g in torch.autograd.grad(z, (x, weights), allow_unused=True):
        assert g is None or g.isfinite().all()


def test_mean_and_center() -> None:
    w = WEIGHTS / WEIGHTS.sum(1, keepdim=True)
    for weights in (None, w):
        expected = np.stack([np.average(X[i], axis=0, weights=None if weights is None else w[i]) for i in range(2)])
        np.testing.assert_allclose(mean(X, weights), expected, rtol=1e-13)
        np.testing.assert_allclose(center(X, weights), X.numpy() - expected[:, None], rtol=1e-13)
        assert center(X, weights, centered=False) is X


@pytest.mark.parametrize(
    ("mask", "weights", "error", "words"),
    [
        (torch.ones(2, 4, dtype=torch.bool), None, ValueError, ("mask", "(2, 5)", "(2, 4)")),
        (torch.ones(2, 5), None, TypeError, ("mask", "boolean", "float32", "weights=")),
        ([True] * 5, None, TypeError, ("mask", "list")),
        (None, torch.ones(5), ValueError, ("weights", "(2, 5)", "(5,)")),
        (None, torch.ones(2, 5, dtype=torch.long), TypeError, ("weights", "int64")),
        (None, 3.0, TypeError, ("weights", "float")),
    ],
)
def test_refusals_name_what_came(mask: object, weights: object, error: type[Exception], words: tuple[str, ...]) -> None:
    with refuses(error, *words):
        keep_positions(X, mask, weights)  # type: ignore[arg-type]


def test_count_is_of_positions_with_weight() -> None:
    assert count(X, None).item() == 5
    _, w = keep_positions(X, MASK, torch.where(WEIGHTS[0, 0] == WEIGHTS, 0, WEIGHTS))
    assert count(X, w).tolist() == [2.0, 2.0]


def test_items_without_kept_positions_are_zero() -> None:
    z = torch.ones(2, 4)
    assert zero_if_empty(z, None) is z
    mask = MASK.clone()
    mask[1] = False
    _, w = keep_positions(X, mask, None)
    assert zero_if_empty(z, w).tolist() == [[1.0] * 4, [0.0] * 4]
