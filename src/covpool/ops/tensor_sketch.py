"""Tensor sketches: short random vectors whose inner products estimate powers of inner products."""

from typing import Literal

import torch
from torch import Tensor

from covpool._check_tensors import check_features
from covpool._errors import CovpoolError, WrongTypeError, check_choice, check_positive_int
from covpool.ops._backend import exporting
from covpool.ops._pooled_spectra import add_to_buckets, pooled_spectra, signed
from covpool.ops.positions import keep_positions
from covpool.ops.precision import full_precision, product

SketchForm = Literal["fft", "moment"]
SKETCH_FORMS: tuple[SketchForm, ...] = ("fft", "moment")
ROUND_OFF = 4  # bound of the round-off in an empty bucket, in eps of the fullest bucket (up to 1.6 measured)


def draw_sketch(
    order: int,
    channels: int,
    size: int,
    *,
    seed: int = 1,
) -> tuple[Tensor, Tensor]:  # (p, c) int64, (p, c)
    """The buckets h and signs s of `order` independent count sketches, drawn without using torch's global generator.

    >>> hashes, signs = draw_sketch(2, 5, 64)
    >>> hashes.shape, signs.abs().tolist() == [[1.0] * 5] * 2
    (torch.Size([2, 5]), True)
    """
    for name, value in (("order", order), ("channels", channels), ("size", size)):
        check_positive_int(name, value)
    generator = torch.Generator().manual_seed(seed)
    hashes = _draw(size, (order, channels), generator)
    return hashes, _draw(2, (order, channels), generator) * 2.0 - 1


def draw_signs(*shape: int, seed: int = 1) -> Tensor:
    """Signs +1 and -1 with equal chance, as floating point numbers, drawn without using torch's global generator.

    >>> draw_signs(2, 3).abs().tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    return _draw(2, shape, torch.Generator().manual_seed(seed)) * 2.0 - 1


def _draw(below: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Random integers from 0 to `below` - 1, the same on every device."""
    numbers = torch.randint(below, shape, generator=generator, device="cpu")
    return numbers.to(torch.get_default_device())


def sketch_form(n: int, c: int, size: int) -> SketchForm:
    """The cheaper form of a pooled sketch of order two: n transforms of length `size`, or one pass over c^2 numbers."""
    return "moment" if c * c <= n * size else "fft"


@full_precision
def tensor_sketch(
    x: Tensor,  # (..., n, c)
    hashes: Tensor,  # (p, c) int64, in [0, size)
    signs: Tensor,  # (p, c)
    size: int,
    *,
    mask: Tensor | None = None,  # (..., n) bool, True = keep
    weights: Tensor | None = None,  # (..., n)
    form: SketchForm | None = None,
) -> Tensor:  # (..., size)
    """The mean over positions of the tensor sketch of order p.

    The circular convolution psi_1(x) * ... * psi_p(x) of the count sketches psi(x)_k = sum_{h(i) = k} s(i) x_i. With
    random h and s, the expectation of <TS(x), TS(y)> is <x, y>^p.

    Args:
        x: Features, one row per position.
        hashes: The buckets h from `draw_sketch`.
        signs: The signs s, or any real numbers if they are learned.
        size: Length of the sketch.
        mask: Positions to keep. An empty mask gives zeros.
        weights: A weight for each position. They are normalized to sum to one, and are uniform by default.
        form: For order two, "moment" (the second moment matrix, whose entry i, j goes to bucket h_1(i) + h_2(j)) or
            "fft" (transforms of every position); the cheaper one by default, see `sketch_form`.

    Shape: (..., n, c) -> (..., size).

    Reference: Pham and Pagh, "Fast and scalable polynomial kernels via explicit feature maps"; pooled in Gao et al.,
    "Compact Bilinear Pooling".

    >>> import torch
    >>> hashes, signs = torch.tensor([[0, 1], [0, 2]]), torch.ones(2, 2)
    >>> tensor_sketch(torch.tensor([[3., 5.]]), hashes, signs, 4, form="moment").tolist()
    [9.0, 15.0, 15.0, 25.0]
    """
    _check(x, hashes, signs, size)
    check_choice("form", form, (None, *SKETCH_FORMS))
    order = len(hashes)
    if form == "moment" and order != 2:
        raise CovpoolError(f'form="moment" is for order 2; got order {order}: use form="fft" or None')
    x, w = keep_positions(x, mask, weights)
    if order == 2 and form is None:
        form = "moment" if exporting() else sketch_form(x.shape[-2], x.shape[-1], size)
    if form == "moment":
        return _bucket_moment(x, w, hashes, signs, size)
    return _inverse(pooled_spectra(x, w, hashes, signs, size)[..., -1, :], size)


@full_precision
def tensor_sketches(
    x: Tensor,  # (..., n, c)
    hashes: Tensor,  # (p, c) int64, in [0, size)
    signs: Tensor,  # (p, c)
    size: int,
    *,
    mask: Tensor | None = None,  # (..., n) bool, True = keep
    weights: Tensor | None = None,  # (..., n)
) -> Tensor:  # (..., p, size)
    """The tensor sketches of orders 1 to p, order i of the first i count sketches: p transforms, not p (p + 1) / 2.

    The arguments are those of `tensor_sketch`, which gives only the last order.

    >>> import torch
    >>> hashes, signs = draw_sketch(3, 5, 64)
    >>> tensor_sketches(torch.randn(2, 9, 5), hashes, signs, 64).shape
    torch.Size([2, 3, 64])
    """
    _check(x, hashes, signs, size)
    x, w = keep_positions(x, mask, weights)
    return _inverse(pooled_spectra(x, w, hashes, signs, size), size)


def _check(x: Tensor, hashes: Tensor, signs: Tensor, size: int) -> None:
    check_features(x)
    check_positive_int("size", size)
    if hashes.ndim != 2 or hashes.shape[-1] != x.shape[-1] or signs.shape != hashes.shape:
        raise CovpoolError(
            f"`hashes` and `signs` must have shape (p, {x.shape[-1]}), one bucket and sign per channel; "
            f"got {tuple(hashes.shape)} and {tuple(signs.shape)}"
        )
    if hashes.dtype != torch.int64:
        raise WrongTypeError(f"`hashes` must be int64 bucket numbers; got {hashes.dtype}")


def _bucket_moment(x: Tensor, w: Tensor | None, hashes: Tensor, signs: Tensor, size: int) -> Tensor:
    """The sketch of the second moment matrix: entry i, j is added to bucket h_1(i) + h_2(j)."""
    left, right = signed(x, w, signs)
    moment = product(left.mT, right).flatten(-2)
    buckets = ((hashes[0].unsqueeze(-1) + hashes[1]) % size).flatten()
    return add_to_buckets(moment, buckets, size)


def _irfft(spectrum: Tensor, size: int) -> Tensor:  # (..., size // 2 + 1) -> (..., size)
    if spectrum.numel() == 0:
        return spectrum.real.sum(-1, keepdim=True).expand(*spectrum.shape[:-1], size)
    return torch.fft.irfft(spectrum, n=size)


def _inverse(
    spectrum: Tensor,  # (..., size // 2 + 1)
    size: int,
) -> Tensor:  # (..., size)
    """The inverse transform, with rounding errors set to zero, because a signed square root would amplify them."""
    z = _irfft(spectrum, size)
    magnitude = z.detach().abs()
    noise = ROUND_OFF * torch.finfo(z.dtype).eps * magnitude.amax(-1, keepdim=True)
    return torch.where(magnitude <= noise, 0, z)  # NaN compares false and stays
