import pytest

from covpool.bench import _measure as measure


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal in which no table is folded, and no wish for tracebacks."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("COVPOOL_TRACEBACK", raising=False)


@pytest.fixture(autouse=True)
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is about time: the benchmark need not wait for the machine to settle."""
    monkeypatch.setattr(measure, "SETTLING_SECONDS", 0)
