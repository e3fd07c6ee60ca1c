"""covpool.cli._fabric: lightning_fabric is imported without what it does not need."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from covpool.cli._fabric import import_fabric
import_fabric()
assert "lightning_fabric" in sys.modules and "torchmetrics" not in sys.modules
import torchmetrics
"""


def test_torchmetrics_is_not_imported_but_can_be_later(tmp_path: Path) -> None:
    (tmp_path / "torchmetrics.py").write_text("print('imported')\n__version__ = '1.0'\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "imported\n"), done.stderr
