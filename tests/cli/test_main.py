"""The entry point, in a process of its own."""

import subprocess
import sys


def covpool(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = f"import sys; {code}; from covpool.cli import main; main()"
    return subprocess.run([sys.executable, "-c", command, *arguments], capture_output=True, text=True)


def test_a_mistake_is_no_traceback() -> None:
    done = covpool("pass", "show", "isqt")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("covpool: ") and "did you mean 'isqrt'" in done.stderr


def test_missing_packages_are_named() -> None:
    done = covpool("sys.modules['rich'] = sys.modules['rich.console'] = None", "list")
    assert done.returncode == 1 and "pip install 'covpool[all]'" in done.stderr and "Traceback" not in done.stderr
