"""No test depends on timings: do not wait for the machine to settle."""

import pytest

from covpool.bench import _measure as measure


@pytest.fixture(autouse=True)
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SETTLING_SECONDS", 0)
