"""The entry point, in a process of its own."""

import subprocess
import sys
from pathlib import Path

from covpool import __version__
from covpool.cli.app import COMMANDS, GROUPS

HEAVY = {"torch", "numpy", "timm", "torchvision", "lightning_fabric", "matplotlib"}


def covpool(*arguments: str, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run the command line after the statements `before`."""
    command = f"import sys; {before}; from covpool.cli import main; main()"
    return subprocess.run([sys.executable, "-c", command, *arguments], capture_output=True, text=True)


def test_a_reader_that_has_enough_is_no_error() -> None:
    command = [sys.executable, "-c", "from covpool.cli import main; main()", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""


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


def test_warnings_of_libraries_stay_hidden_and_ours_take_one_line() -> None:
    before = "import covpool, warnings; from covpool._errors import CovpoolWarning as Ours; "
    before += "covpool.list_pools = lambda: [warnings.warn('torch is loud'), warnings.warn('look', Ours), 'isqrt']"
    done = covpool("show", "isqrt", before=before)
    assert done.returncode == 0 and done.stderr == "covpool: look\n"


def test_the_version() -> None:
    assert covpool("--version").stdout == f"covpool {__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    program = f"""
import sys
from typer.testing import CliRunner
from covpool.cli.app import COMMANDS, app
for arguments in (["--help"], *([name, "--help"] for name in COMMANDS)):
    result = CliRunner().invoke(app, arguments)
    print(*arguments, result.exit_code, "Usage:" in result.output, *({HEAVY} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["--help 0 True", *(f"{name} --help 0 True" for name in COMMANDS)]


def test_the_help_lists_every_command() -> None:
    done = covpool("--help")
    assert done.returncode == 0 and all(f" {name} " in done.stdout for name in COMMANDS)


def test_every_command_has_its_file() -> None:
    folder = Path(sys.modules["covpool.cli.app"].__file__ or "").parent
    files = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert files == {*COMMANDS, *GROUPS, "app"}
