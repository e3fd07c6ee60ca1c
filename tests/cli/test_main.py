"""The entry point, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from covpool import __version__
from covpool.cli.app import COMMANDS, GROUPS

HEAVY = {"torch", "numpy", "timm", "torchvision", "lightning", "matplotlib"}


def covpool(*arguments: str, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run the command line after the statements `before`."""
    command = f"import sys; {before}; from covpool.cli import main; main()"
    return subprocess.run([sys.executable, "-c", command, *arguments], capture_output=True, text=True)


def test_a_mistake_is_one_line_without_traceback() -> None:
    done = covpool("show", "isqt")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("covpool: ") and "did you mean 'isqrt'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_fault_inside_torch_keeps_its_traceback() -> None:
    fault = "import covpool, torch; covpool.list_pools = lambda: torch.ones(2, 3) @ torch.ones(2, 3)"
    done = covpool("show", "isqrt", before=fault)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback") and "mat1 and mat2 shapes cannot be multiplied" in done.stderr


def test_missing_packages_are_named() -> None:
    done = covpool("list", before="sys.modules['rich'] = sys.modules['rich.console'] = None")
    assert done.returncode == 1 and "pip install 'covpool[all]'" in done.stderr and "Traceback" not in done.stderr


def test_the_version() -> None:
    assert covpool("--version").stdout == f"covpool {__version__}\n"


@pytest.mark.parametrize("arguments", [("--help",), *((name, "--help") for name in (*COMMANDS, *GROUPS))], ids=" ".join)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    at_exit = f"import atexit; atexit.register(lambda: print('heavy:', *({HEAVY} & sys.modules.keys())))"
    done = covpool(*arguments, before=at_exit)
    assert done.returncode == 0 and done.stdout.endswith("heavy:\n")
    assert "Usage:" in done.stdout
    if len(arguments) == 1:
        assert all(f" {name} " in done.stdout for name in (*COMMANDS, *GROUPS))


def test_every_command_has_its_file() -> None:
    folder = Path(sys.modules["covpool.cli.app"].__file__ or "").parent
    files = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert files == {*COMMANDS, *GROUPS, "app"}
