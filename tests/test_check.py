import pytest
import torch

from covpool import _check


def test_choice() -> None:
    _check.check_choice("kind", "log", ("sqrt", "log"))
    _check.check_choice("normalization", None, (None, "spectral"))
    with pytest.raises(ValueError, match=r"must be one of \['sqrt', 'log'\]; got 'sqr' \(did you mean 'sqrt'\?\)"):
        _check.check_choice("kind", "sqr", ("sqrt", "log"))
    with pytest.raises(ValueError, match=r"got 7$"):
        _check.check_choice("kind", 7, ("sqrt", "log"))


def test_did_you_mean_is_silent_when_nothing_is_near() -> None:
    assert _check.did_you_mean("xyz", ("avg", "max")) == ""


def test_positive_int() -> None:
    _check.check_positive_int("n", 1)
    for wrong in (0, -3):
        with pytest.raises(ValueError, match=f"`n` must be a positive integer; got {wrong}"):
            _check.check_positive_int("n", wrong)
    for wrong, kind in ((True, "bool"), (2.0, "float"), ("3", "str"), (None, "NoneType")):
        with pytest.raises(TypeError, match=rf"`n` must be a positive integer; got .* \({kind}\)"):
            _check.check_positive_int("n", wrong)


def test_floating() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        _check.check_floating("x", torch.zeros(1, dtype=dtype))
    for dtype in (torch.int64, torch.bool, torch.complex64):
        with pytest.raises(TypeError, match=f"`x` must be floating point; got {dtype}"):
            _check.check_floating("x", torch.zeros(1, dtype=dtype))
    with pytest.raises(TypeError, match=r"`x` must be a torch.Tensor; got float"):
        _check.check_floating("x", 1.0)


def test_features() -> None:
    _check.check_features(torch.zeros(0, 3, 2))
    for shape in ((3,), (2, 0, 4), (2, 4, 0)):
        with pytest.raises(ValueError, match=rf"`x` must have shape \(..., n, c\).*got \({shape[0]},"):
            _check.check_features(torch.zeros(shape))


def test_square() -> None:
    _check.check_square("a", torch.zeros(0, 3, 3))
    for shape in ((3,), (2, 3), (2, 0, 0)):
        with pytest.raises(ValueError, match=rf"`a` must have shape \(..., c, c\).*got \({shape[0]},"):
            _check.check_square("a", torch.zeros(shape))


def test_positions() -> None:
    keep = torch.ones(2, 6, dtype=torch.bool)
    _check.check_positions("mask", keep, (2, 2, 3), (2, 6))
    _check.check_positions("weights", torch.ones(2, 6), (2, 6))
    with pytest.raises(ValueError, match=r"one entry per position, shape \(2, 2, 3\) or \(2, 7\); got \(2, 6\)"):
        _check.check_positions("mask", keep, (2, 2, 3), (2, 7))
    with pytest.raises(TypeError, match=r"`mask` must be boolean, True = keep; got torch.float32: use weights="):
        _check.check_positions("mask", keep.float(), (2, 6))
    with pytest.raises(TypeError, match=r"`weights` must be floating point; got torch.bool"):
        _check.check_positions("weights", keep, (2, 6))
    with pytest.raises(TypeError, match=r"`mask` must be a torch.Tensor; got list"):
        _check.check_positions("mask", [True], (1,))


def test_require_names_the_extra() -> None:
    assert _check.require("math", "models").pi > 3
    with pytest.raises(ImportError, match=r"this needs no_such_module: pip install 'covpool\[models\]'"):
        _check.require("no_such_module", "models")
