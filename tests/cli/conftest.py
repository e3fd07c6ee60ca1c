import pytest

from covpool.bench import _measure as measure


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal wide enough for every table, and no tracebacks."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("COVPOOL_TRACEBACK", raising=False)


@pytest.fixture(autouse=True)
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on timings: do not wait for the machine to settle."""
    monkeypatch.setattr(measure, "SETTLING_SECONDS", 0)
