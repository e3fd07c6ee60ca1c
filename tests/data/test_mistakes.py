"""Whose error it is: covpool's own tell of a mistake."""

import pytest

import covpool
from covpool.data.mistakes import is_ours


def test_an_error_is_ours_where_covpool_raised_it() -> None:
    with pytest.raises(ValueError, match="isqt") as mistake:
        covpool.create_pool("isqt", 16)
    with pytest.raises(ValueError, match="invalid literal") as fault:
        int("not raised by covpool")
    assert is_ours(mistake.value) and not is_ours(fault.value) and not is_ours(ValueError("never raised"))
