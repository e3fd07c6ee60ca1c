"""Start-up times."""

import pytest
import torch

from covpool.bench import _startup as startup


def test_processes_are_compared_with_importing_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = dict.fromkeys(startup.COMMANDS, ("-c", "pass"))
    monkeypatch.setattr(startup, "COMMANDS", quick)
    records = list(startup.startup(torch.device("cpu"), 0.0, 0))
    assert [record.name for record in records] == list(quick)
    assert records[0].name == "import torch" and records[0].ratio == 1.0
    assert all(record.suite == "startup" and record.shape == () for record in records)
