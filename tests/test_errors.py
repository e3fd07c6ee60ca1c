import pytest

from covpool import _errors


def test_choice() -> None:
    _errors.check_choice("kind", "log", ("sqrt", "log"))
    _errors.check_choice("normalization", None, (None, "spectral"))
    with pytest.raises(ValueError, match=r"must be one of \['sqrt', 'log'\]; got 'sqr' \(did you mean 'sqrt'\?\)"):
        _errors.check_choice("kind", "sqr", ("sqrt", "log"))
    with pytest.raises(ValueError, match=r"got 7$"):
        _errors.check_choice("kind", 7, ("sqrt", "log"))


def test_did_you_mean_is_silent_when_nothing_is_near() -> None:
    assert _errors.did_you_mean("xyz", ("avg", "max")) == ""


def test_positive_int() -> None:
    _errors.check_positive_int("n", 1)
    for wrong in (0, -3):
        with pytest.raises(ValueError, match=f"`n` must be a positive integer; got {wrong}"):
            _errors.check_positive_int("n", wrong)
    for wrong, kind in ((True, "bool"), (2.0, "float"), ("3", "str"), (None, "NoneType")):
        with pytest.raises(TypeError, match=rf"`n` must be a positive integer; got .* \({kind}\)"):
            _errors.check_positive_int("n", wrong)


def test_text_that_cannot_be_written_to_files_is_refused() -> None:
    _errors.check_utf8("the name", "caf\u00e9 \U0001f431")
    with pytest.raises(ValueError, match=r"^the name must be UTF-8 text, .*; got 'b\\udce9'$"):
        _errors.check_utf8("the name", "b\udce9")


def test_require_names_the_extra() -> None:
    assert _errors.require("math", "models").pi > 3
    with pytest.raises(ImportError, match=r"this needs no_such_module: pip install 'covpool\[models\]'"):
        _errors.require("no_such_module", "models")


def test_what_a_terminal_would_obey_is_escaped() -> None:
    assert _errors.printable("caf\u00e9 \u4e2d \U0001f431\ttab\n") == "caf\u00e9 \u4e2d \U0001f431\ttab\n"
    assert _errors.printable("a\x1b]0;title\x07\r\x9b2J\udcff\u202egnp") == r"a\x1b]0;title\x07\r\x9b2J\udcff\u202egnp"
