"""covpool.kernels.sqrtm: the root of given matrices and its gradient against float64."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from covpool.kernels import sqrtm
from covpool.kernels.precision import PRECISIONS
from covpool.ops import reference
from kernels.oracles import DEVICE, LARGEST_ERROR, SEVERAL_TILES, combinations, memory_with_a_hole, randn
from ops.oracles import relative_error, rotation

FEW = 20 if DEVICE == "cuda" else 5  # the order of a matrix


def matrices(b: int, c: int) -> Tensor:
    x = randn(b, c, c)
    return x @ x.mT


def symmetric(b: int, c: int) -> Tensor:
    g = randn(b, c, c, seed=1)
    return g + g.mT


def exact(s: Tensor, g: Tensor, iterations: int, postcomp: bool) -> tuple[Tensor, Tensor]:
    s = s.double().requires_grad_()
    z = reference.isqrt_iterated(s, iterations, postcomp=postcomp)
    (ds,) = torch.autograd.grad(z, s, g.double())
    return z.detach(), (ds + ds.mT) / 2


def assert_exact(s: Tensor, iterations: int, postcomp: bool, precision: str) -> None:
    options = (iterations, postcomp, precision)
    g = symmetric(*s.shape[:2])
    z, ds = sqrtm.forward(s, *options), sqrtm.backward(s, g, *options)
    expected, expected_ds = exact(s, g, iterations, postcomp)
    assert relative_error(z, expected) <= LARGEST_ERROR[precision]
    assert relative_error(ds, expected_ds) <= LARGEST_ERROR[precision]


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize(
    ("c", "postcomp"), combinations((2, 20, 64, 130, 256), (True, False), few=[(2, True), (20, False)])
)
def test_value_and_gradient(c: int, postcomp: bool) -> None:
    assert_exact(matrices(2, c), 3, postcomp, "float32")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("c", [12, 20])  # on the chip, and through memory
@pytest.mark.parametrize("postcomp", [True, False])
def test_every_precision(c: int, precision: str, postcomp: bool) -> None:
    assert_exact(matrices(1, c), 3, postcomp, precision)


def test_order_one_is_the_square_root_of_a_number() -> None:
    s = matrices(3, 1)
    assert relative_error(sqrtm.forward(s, 3, True, "float32"), s.sqrt()) <= 1e-6
    assert relative_error(sqrtm.backward(s, torch.ones_like(s), 3, True, "float32"), 0.5 / s.sqrt()) <= 1e-6


@pytest.mark.parametrize("scale", [1e-16, 1e16])
@pytest.mark.parametrize("postcomp", [True, False])
def test_scale_of_the_matrices(scale: float, postcomp: bool) -> None:
    assert_exact(matrices(1, 5) * scale, 3, postcomp, "float32")


@pytest.mark.parametrize("scale", [1e-37, 1e-30, 1e30])
def test_the_scale_of_a_gradient_does_not_matter(scale: float) -> None:
    s, g = matrices(1, 5), symmetric(1, 5)
    _, expected = exact(s, g * scale, 3, True)
    assert relative_error(sqrtm.backward(s, g * scale, 3, True, "float32"), expected) <= 1e-5


@pytest.mark.parametrize("postcomp", [True, False])
def test_zero_matrices_and_zero_gradients_give_zero(postcomp: bool) -> None:
    s, g = matrices(2, 5), symmetric(2, 5)
    s[0], g[1] = 0, 0
    options = (3, postcomp, "float32")
    assert not sqrtm.forward(s, *options)[0].any()
    assert not sqrtm.backward(s, g, *options).any()


def test_nan_stays_in_its_item() -> None:
    s, g = matrices(2, 5), symmetric(2, 5)
    options = (3, True, "tf32")
    clean, clean_ds = sqrtm.forward(s, *options), sqrtm.backward(s, g, *options)
    s[0, 1, 2] = s[0, 2, 1] = torch.nan
    z, ds = sqrtm.forward(s, *options), sqrtm.backward(s, g, *options)
    assert z[0].isnan().any() and ds[0].isnan().any()
    assert torch.equal(z[1], clean[1]) and torch.equal(ds[1], clean_ds[1])


def test_the_symmetric_part_counts() -> None:
    s, g = matrices(2, 5), symmetric(2, 5)
    expected, expected_ds = exact(s, g, 3, True)
    skew = randn(2, 5, 5, seed=2)
    skew = skew - skew.mT
    assert relative_error(sqrtm.forward(s + skew, 3, True, "float32"), expected) <= 1e-5
    # the symmetric part is a thousandth of this gradient, which costs three digits
    ds = sqrtm.backward(s + skew, g + 1e3 * skew, 3, True, "float32")
    assert relative_error(ds, expected_ds) <= 1e-3


def test_any_strides() -> None:
    s, g = matrices(2, FEW), randn(2, FEW, FEW, seed=1)
    options = (3, True, "tf32")
    z, ds = sqrtm.forward(s, *options), sqrtm.backward(s, g, *options)
    apart = torch.stack([s, torch.full_like(s, torch.nan)], -1)[..., 0]
    assert torch.equal(sqrtm.forward(apart, *options), z)
    assert torch.equal(sqrtm.backward(apart, g.mT.contiguous().mT, *options), ds)
    assert torch.equal(sqrtm.backward(s, g.mT, *options), ds)
    ones = torch.ones(1, 1, 1, device=DEVICE).expand(2, FEW, FEW)
    assert torch.equal(sqrtm.backward(s, ones, *options), sqrtm.backward(s, ones.contiguous(), *options))


@pytest.mark.skipif(DEVICE == "cuda", reason="the memory is a file")
def test_entries_of_the_diagonal_exceed_the_range_of_int32(tmp_path: Path) -> None:
    stride = 2**30
    s = memory_with_a_hole(tmp_path, 2 * stride + 1).as_strided((1, 2, 2), (0, stride, stride))
    s[0, 0, 0], s[0, 0, 1], s[0, 1, 1] = 2, 1, 3
    options = (3, True, "float32")
    assert torch.equal(sqrtm.forward(s, *options), sqrtm.forward(s.clone(), *options))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.usefixtures("launch")
def test_few_launches(precision: str, launched: list[Any]) -> None:
    s = matrices(1, SEVERAL_TILES)
    sqrtm.forward(s, 3, True, precision)
    forward = len(launched)
    sqrtm.backward(s, s, 3, True, precision)
    assert forward == 2 and len(launched) - forward == 5  # the design allows at most 4 and 6


def test_refuses_eight_iterations() -> None:
    with pytest.raises(ValueError, match="3 to 7 iterations; got 8"):
        sqrtm.forward(matrices(1, 5), 8, True, "tf32")


@pytest.mark.parametrize(("precision", "largest"), [("float32", 2e-5), ("tf32", 2e-2), ("bf16", 1e-1)])
@pytest.mark.parametrize("c", [12, 20])  # on the chip, and through memory
def test_one_large_eigenvalue_and_the_most_iterations(c: int, precision: str, largest: float) -> None:
    q, eigenvalues = rotation(c), torch.full((c,), 1e-6, dtype=torch.float64)
    eigenvalues[0] = 1
    s = ((q * eigenvalues) @ q.mT).float()[None].to(DEVICE)
    s = (s + s.mT) / 2
    g = symmetric(1, c)
    expected, expected_ds = exact(s, g, 7, True)
    assert relative_error(sqrtm.forward(s, 7, True, precision), expected) <= largest
    assert relative_error(sqrtm.backward(s, g, 7, True, precision), expected_ds) <= largest


@pytest.mark.parametrize("precision", PRECISIONS)
def test_no_matrices(precision: str) -> None:
    s = matrices(0, 5)
    assert sqrtm.forward(s, 3, True, precision).shape == sqrtm.backward(s, s, 3, True, precision).shape == (0, 5, 5)


def test_schema_and_fake_shapes() -> None:
    s, g = matrices(2, 5), symmetric(2, 5)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(sqrtm.forward, (s, 3, True, "tf32"), test_utils=checks)
    torch.library.opcheck(sqrtm.backward, (s, g, 3, True, "tf32"), test_utils=checks)
