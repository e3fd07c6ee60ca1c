import pytest
import torch

from covpool import _check_tensors


def test_floating() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        _check_tensors.check_floating("x", torch.zeros(1, dtype=dtype))
    for dtype in (torch.int64, torch.bool, torch.complex64):
        with pytest.raises(TypeError, match=f"`x` must be floating point; got {dtype}"):
            _check_tensors.check_floating("x", torch.zeros(1, dtype=dtype))
    with pytest.raises(TypeError, match=r"`x` must be a torch.Tensor; got float"):
        _check_tensors.check_floating("x", 1.0)


def test_features() -> None:
    _check_tensors.check_features(torch.zeros(0, 3, 2))
    for shape in ((3,), (2, 0, 4), (2, 4, 0)):
        with pytest.raises(ValueError, match=rf"`x` must have shape \(..., n, c\).*got \({shape[0]},"):
            _check_tensors.check_features(torch.zeros(shape))


def test_square() -> None:
    _check_tensors.check_square("a", torch.zeros(0, 3, 3))
    for shape in ((3,), (2, 3), (2, 0, 0)):
        with pytest.raises(ValueError, match=rf"`a` must have shape \(..., c, c\).*got \({shape[0]},"):
            _check_tensors.check_square("a", torch.zeros(shape))


def test_positions() -> None:
    keep = torch.ones(2, 6, dtype=torch.bool)
    _check_tensors.check_positions("mask", keep, (2, 2, 3), (2, 6))
    _check_tensors.check_positions("weights", torch.ones(2, 6), (2, 6))
    with pytest.raises(ValueError, match=r"one entry per position, shape \(2, 2, 3\) or \(2, 7\); got \(2, 6\)"):
        _check_tensors.check_positions("mask", keep, (2, 2, 3), (2, 7))
    with pytest.raises(TypeError, match=r"`mask` must be boolean, True = keep; got torch.float32: use weights="):
        _check_tensors.check_positions("mask", keep.float(), (2, 6))
    with pytest.raises(TypeError, match=r"`weights` must be floating point; got torch.bool"):
        _check_tensors.check_positions("weights", keep, (2, 6))
    with pytest.raises(TypeError, match=r"`mask` must be a torch.Tensor; got list"):
        _check_tensors.check_positions("mask", [True], (1,))
