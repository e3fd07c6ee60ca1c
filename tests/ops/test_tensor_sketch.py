"""covpool.ops.tensor_sketch: the sums in each bucket, the choice of form, masks, weights, the random draw."""

import pytest
import torch
from torch import Tensor

from cases import features, generator
from covpool.ops import draw_sketch, tensor_sketch, tensor_sketches
from covpool.ops.tensor_sketch import SKETCH_FORMS, SketchForm, draw_signs, sketch_form
from ops.oracles import assert_gradient, gradient, randn, refuses, relative_error

MASK = torch.tensor([[True, True, False, True, False, True], [False, True, True, False, False, True]])
WEIGHTS = torch.rand(2, 6, dtype=torch.float64, generator=generator()) + 0.1


def bucket_by_bucket(x: Tensor, hashes: Tensor, signs: Tensor, size: int) -> Tensor:
    """TS(x)_k = sum of s_1(i) s_2(j) x_i x_j over all i, j with h_1(i) + h_2(j) = k (mod size), for one x (c,)."""
    z = [0.0] * size
    for i, a in enumerate(x.tolist()):
        for j, b in enumerate(x.tolist()):
            k = (int(hashes[0, i]) + int(hashes[1, j])) % size
            z[k] += float(signs[0, i]) * float(signs[1, j]) * a * b
    return torch.tensor(z, dtype=torch.float64)


def many_draws(order: int, c: int, size: int, draws: int) -> tuple[Tensor, Tensor]:
    g = generator(5)
    hashes = torch.randint(size, (draws, order, c), generator=g)
    return hashes, torch.randint(2, (draws, order, c), generator=g).double() * 2 - 1


@pytest.mark.parametrize("form", SKETCH_FORMS)
@pytest.mark.parametrize("size", [1, 5, 16, 33])
def test_exact_bucket_oracle(form: SketchForm, size: int) -> None:
    x = features(2, 6, 4)
    hashes, signs = draw_sketch(2, 4, size)
    rows = torch.stack([torch.stack([bucket_by_bucket(row, hashes, signs, size) for row in item]) for item in x])
    z = tensor_sketch(x, hashes, signs, size, form=form)
    assert relative_error(z, rows.mean(1)) <= 1e-14
    kept = torch.stack([rows[i, MASK[i]].mean(0) for i in range(2)])
    assert relative_error(tensor_sketch(x, hashes, signs, size, mask=MASK, form=form), kept) <= 1e-14
    weighted = (rows * WEIGHTS[..., None]).sum(1) / WEIGHTS.sum(1, keepdim=True)
    assert relative_error(tensor_sketch(x, hashes, signs, size, weights=5 * WEIGHTS, form=form), weighted) <= 1e-14


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_unbiased_for_powers_of_the_inner_product(order: int) -> None:
    """The mean of <TS(x), TS(y)> over 20 000 draws lies within four standard errors of <x, y>^p."""
    x, y = features(2, 1, 5, seed=3)
    y = y + x  # an inner product well away from zero
    hashes, signs = many_draws(order, 5, 16, 20_000)
    estimates = torch.vmap(lambda h, s: (tensor_sketch(x, h, s, 16) * tensor_sketch(y, h, s, 16)).sum())(hashes, signs)
    target = float((x * y).sum()) ** order
    assert abs(target) > 1
    assert abs(float(estimates.mean()) - target) <= 4 * float(estimates.std()) / 20_000**0.5


@pytest.mark.parametrize("form", SKETCH_FORMS)
def test_without_collisions_it_holds_the_bilinear_feature(form: SketchForm) -> None:
    """h_1(i) + h_2(j) injective, size >= c^2: every product once, up to its sign."""
    x = features(2, 6, 4)
    hashes, signs = torch.tensor([[0, 4, 8, 12], [0, 1, 2, 3]]), draw_sketch(2, 4, 16)[1]
    expected = torch.outer(signs[0], signs[1]).double() * (x.mT @ x) / 6
    torch.testing.assert_close(tensor_sketch(x, hashes, signs, 16, form=form), expected.flatten(1))


def test_forms_are_equal_with_their_gradients() -> None:
    x, g = features(2, 6, 7), randn(2, 33, seed=1)
    hashes, signs = draw_sketch(2, 7, 33)
    for positions in ({}, {"mask": MASK}, {"weights": WEIGHTS}, {"mask": MASK, "weights": WEIGHTS}):
        fft, moment = (
            lambda x, f=f, p=positions: tensor_sketch(x, hashes, signs, 33, form=f, **p) for f in SKETCH_FORMS
        )
        assert relative_error(fft(x), moment(x)) <= 1e-14
        assert relative_error(gradient(fft, x, g), gradient(moment, x, g)) <= 1e-13


@pytest.mark.parametrize(
    ("n", "c", "form"), [(784, 512, "moment"), (49, 512, "moment"), (49, 2048, "fft"), (196, 1024, "moment")]
)
def test_the_form_goes_by_the_shape(n: int, c: int, form: SketchForm) -> None:
    assert sketch_form(n, c, 8192) == form


def test_an_order_of_several_is_the_sketch_of_the_first_hashes() -> None:
    x = features(2, 6, 4)
    hashes, signs = draw_sketch(4, 4, 33)
    z = tensor_sketches(x, hashes, signs, 33, mask=MASK, weights=WEIGHTS)
    for p in range(4):
        alone = tensor_sketch(x, hashes[: p + 1], signs[: p + 1], 33, mask=MASK, weights=WEIGHTS)
        assert relative_error(z[:, p], alone) <= 1e-14


def test_an_empty_bucket_is_exactly_zero_and_nan_stays() -> None:
    """Transforms leave round-off there, which the signed square root after them would make large."""
    x = features(2, 9, 3, dtype=torch.float32)
    hashes, signs = torch.tensor([[0, 3, 7], [0, 1, 5]]), torch.ones(2, 3)
    for z in (tensor_sketch(x, hashes, signs, 64, form=form) for form in SKETCH_FORMS):
        assert z[:, 13:].abs().max() == 0 and (z[:, 12] != 0).all()
    x[0, 2, 1] = torch.nan
    assert tensor_sketch(x, hashes, signs, 64, form="fft")[0].isnan().all()


@pytest.mark.parametrize("form", SKETCH_FORMS)
def test_faults_at_masked_positions_and_an_empty_mask(form: SketchForm) -> None:
    x, mask = features(2, 6, 4), MASK.clone()
    mask[1] = False
    hashes, signs = draw_sketch(2, 4, 16)
    poisoned = torch.where(mask[..., None], x, torch.nan)
    z = tensor_sketch(poisoned, hashes, signs, 16, mask=mask, form=form)
    assert torch.equal(z, tensor_sketch(x, hashes, signs, 16, mask=mask, form=form))
    assert (z[1] == 0).all()
    dx = gradient(lambda x: tensor_sketch(x, hashes, signs, 16, mask=mask, form=form), poisoned, randn(2, 16))
    assert dx.isfinite().all() and (dx[~mask] == 0).all()


@pytest.mark.parametrize("form", SKETCH_FORMS)
def test_derivatives_of_every_kind(form: SketchForm) -> None:
    x, w = features(2, 3, 3).requires_grad_(), WEIGHTS[:, :3].clone().requires_grad_()
    hashes, signs = draw_sketch(2, 3, 8)
    learned = signs.double().requires_grad_()

    def f(x: Tensor, s: Tensor, w: Tensor) -> Tensor:
        return tensor_sketch(x, hashes, s, 8, weights=w, form=form)

    assert torch.autograd.gradcheck(f, (x, learned, w), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, (x, learned, w))
    assert_gradient(lambda x: tensor_sketches(x, hashes, signs, 8), features(2, 3, 3))


# --- the draw -------------------------------------------------------------------------------------


def test_the_draw_is_uniform_and_its_own() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    hashes, signs = draw_sketch(2, 40_000, 16, seed=7)
    assert torch.equal(torch.get_rng_state(), before)
    counts = torch.bincount(hashes.flatten(), minlength=16).double()
    assert len(counts) == 16
    assert float(((counts - 5000) ** 2 / 5000).sum()) <= 40  # chi-square with 15 degrees of freedom: p = 5e-4
    assert set(signs.flatten().tolist()) == {-1.0, 1.0}
    assert signs.sum(1).abs().max() <= 4 * 200  # four standard deviations
    assert float((signs[0] * signs[1]).sum().abs()) <= 4 * 200
    again, other = draw_sketch(2, 40_000, 16, seed=7), draw_sketch(2, 40_000, 16, seed=8)
    assert torch.equal(again[0], hashes) and torch.equal(again[1], signs)
    assert not torch.equal(other[0], hashes) and not torch.equal(other[1], signs)
    assert torch.equal(draw_sketch(2, 40, 16)[0], draw_sketch(2, 40, 16, seed=1)[0])


def test_signs_are_uniform_and_their_own() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    signs = draw_signs(2, 20_000, seed=7)
    assert torch.equal(torch.get_rng_state(), before)
    assert set(signs.flatten().tolist()) == {-1.0, 1.0} and signs.sum().abs() <= 4 * 200
    assert torch.equal(draw_signs(2, 20_000, seed=7), signs) and not torch.equal(draw_signs(2, 20_000, seed=8), signs)
    assert torch.equal(draw_signs(40), draw_signs(40, seed=1))


def test_the_draw_goes_to_the_default_device() -> None:
    with torch.device("meta"):
        assert {t.device.type for t in (*draw_sketch(2, 4, 16), draw_signs(3))} == {"meta"}


def test_refusals_name_what_came() -> None:
    x = features(2, 6, 4)
    hashes, signs = draw_sketch(2, 4, 16)
    with refuses(ValueError, "(p, 4)", "(2, 3)"):
        tensor_sketch(x, hashes[:, :3], signs[:, :3], 16)
    with refuses(ValueError, "(p, 4)", "(2, 4) and (1, 4)"):
        tensor_sketches(x, hashes, signs[:1], 16)
    with refuses(TypeError, "int64", "int32"):
        tensor_sketch(x, hashes.int(), signs, 16)
    with refuses(ValueError, "`form`", "'dft'"):
        tensor_sketch(x, hashes, signs, 16, form="dft")  # type: ignore[arg-type]
    with refuses(ValueError, "order 2", "order 1"):
        tensor_sketch(x, hashes[:1], signs[:1], 16, form="moment")
    with refuses(ValueError, "`size`", "0"):
        draw_sketch(2, 4, 0)


def test_what_is_not_a_feature_tensor_is_refused() -> None:
    hashes, signs = draw_sketch(2, 4, 8)
    with refuses(ValueError, "`x`", "(4,)"):
        tensor_sketch(torch.ones(4), hashes, signs, 8)
