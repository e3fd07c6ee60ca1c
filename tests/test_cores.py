"""covpool._cores."""

import os

from covpool._cores import usable_cores


def test_cores_are_counted() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
