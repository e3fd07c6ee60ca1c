"""covpool.ops._pooled_spectra: position by position, and the choice between kernels and torch's operations."""

import math

import pytest
import torch

from cases import features
from covpool.ops import _pooled_spectra, draw_sketch
from covpool.ops._pooled_spectra import add_to_buckets, pooled_spectra
from ops.oracles import randn, relative_error


@pytest.mark.parametrize("size", [1, 6, 7])
def test_sums_of_products_of_transforms(size: int) -> None:
    x, w = features(2, 5, 4), randn(2, 5).abs()
    hashes, signs = draw_sketch(3, 4, size)
    expected = torch.zeros(2, 3, size // 2 + 1, dtype=torch.complex128)
    for b in range(2):
        for n in range(5):
            product = torch.ones(size // 2 + 1, dtype=torch.complex128)
            for j in range(3):
                buckets = torch.zeros(size, dtype=torch.float64)
                for i in range(4):
                    buckets[hashes[j, i]] += signs[j, i] * x[b, n, i]
                product = product * torch.fft.fft(buckets)[: size // 2 + 1]
                expected[b, j] += w[b, n] * product
    found = pooled_spectra(x, w, hashes, signs, size)
    assert relative_error(torch.view_as_real(found), torch.view_as_real(expected)) <= 1e-14


def test_values_are_added_to_their_buckets() -> None:
    z = add_to_buckets(torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([3, 0, 3]), 4)
    assert z.tolist() == [[2.0, 0.0, 0.0, 5.0]]


def test_an_empty_batch() -> None:
    hashes, signs = draw_sketch(2, 4, 6)
    assert pooled_spectra(torch.zeros(0, 5, 4), None, hashes, signs, 6).shape == (0, 2, 4)


class _OnGpu:
    """What the choice looks at, of features on a GPU."""

    is_cuda, dtype, device = True, torch.float32, torch.device("cpu")

    def __init__(self, *shape: int) -> None:
        self.shape = shape or (2, 5, 4)
        self.numel = lambda: math.prod(self.shape)


def test_kernels_serve_what_they_can_differentiate(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes, signs = draw_sketch(4, 4, 6)
    monkeypatch.setattr(_pooled_spectra, "is_eager", lambda *_: True)
    monkeypatch.setattr(_pooled_spectra, "largest_tile", lambda _: 128)
    serve = _pooled_spectra._kernels_serve
    w = torch.ones(2, 5)
    assert serve(_OnGpu(), None, hashes, signs) and serve(_OnGpu(), w, hashes, signs)
    assert not serve(torch.ones(2, 5, 4), None, hashes, signs)
    assert not serve(_OnGpu(0, 5, 4), None, hashes, signs)
    assert serve(_OnGpu(5, 13107, 1, 4), None, hashes, signs)
    assert not serve(_OnGpu(256, 256, 1, 4), None, hashes, signs)
    assert not serve(_OnGpu(), None, hashes.repeat(2, 1), signs)
    assert not serve(_OnGpu(), w.clone().requires_grad_(), hashes, signs)
    assert not serve(_OnGpu(), w, hashes, signs.clone().requires_grad_())
    with torch.autograd.forward_ad.dual_level():
        assert not serve(_OnGpu(), w, hashes, signs)
    monkeypatch.setattr(_pooled_spectra, "is_eager", lambda *_: False)
    assert not serve(_OnGpu(), w, hashes, signs)
