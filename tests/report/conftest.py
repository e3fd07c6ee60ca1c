"""One run with its report, shared by all tests of the report."""

from pathlib import Path

import pytest

from report.pages import reported_run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run. Tests must not change it."""
    return reported_run(tmp_path_factory.mktemp("finished"))
