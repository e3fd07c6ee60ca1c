import pytest


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal in which no table is folded, and no wish for tracebacks."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("COVPOOL_TRACEBACK", raising=False)
