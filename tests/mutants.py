"""Mutation testing: change one place of the source at a time, and see whether a test fails.

`make mutants` tries 300 places of ops, io and the state of a training, drawn from a seed. Every mutant is tested by the
tests of its own module, then by those of the modules that import it, until the first failure. A test that hangs counts
as failed. Results are appended to a file: an interrupted run continues, and `--survivors` tries the survivors again.
Survivors are listed, to be read one by one.
"""

import argparse
import ast
import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
STATE = ("_state", "_run_folder", "_run_lock", "_same_recipe", "_trained_on")
TIMEOUT = 120  # seconds of computation for one test; an endless loop counts as found
PATIENCE = 600  # seconds for one test that waits, on a busy machine too
SHARED = ("torch", "timm", "sklearn.svm", "lightning_fabric", "hypothesis", "pytest")  # imported once, for every fork

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Pow: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One changed place: the text from `start` to `end` of a file is replaced."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.after + text[self.end :]


def targets() -> list[Path]:
    """The files that are mutated."""
    package = SOURCE / "covpool"
    state = [package / "engine" / "training" / f"{name}.py" for name in STATE]
    files = [path for part in ("ops", "io") for path in sorted((package / part).glob("*.py"))]
    return [path for path in [*files, *state] if path.name != "__init__.py"]


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file. Annotations, docstrings, messages and names are left alone."""
    text = path.read_text()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        begin = starts[line - 1]
        return begin + len(text[begin : starts[line]].encode()[:column].decode())

    for node in _code(ast.parse(text)):
        for after in _changes(node):
            start, end = place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)
            yield Mutant(str(path.relative_to(ROOT)), node.lineno, start, end, text[start:end], after)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that compute something."""
    if isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom)):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params") or (isinstance(node, ast.Raise)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _code(child)


def _changes(node: ast.AST) -> Iterator[str]:
    """The texts that may replace a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = COMPARISONS[type(node.ops[0])]()
        yield f"({ast.unparse(ast.Compare(node.left, [other], node.comparators))})"
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield f"({ast.unparse(ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right))})"
    elif isinstance(node, ast.BoolOp):
        other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(ast.BoolOp(other_op, node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield repr(node.value + 1 if isinstance(node.value, int) else node.value * 3 or 1.0)
    elif isinstance(node, ast.IfExp):
        yield f"({ast.unparse(ast.IfExp(node.test, node.orelse, node.body))})"
    elif isinstance(node, (ast.Raise, ast.Expr)) and not isinstance(getattr(node, "value", None), ast.Constant):
        yield "pass"


def tests_of(file: str) -> tuple[list[str], list[str]]:
    """The tests of a module, and the tests of the modules that import it."""
    module = Path(file)
    importers = [
        path
        for path in sorted(SOURCE.rglob("*.py"))
        if re.search(rf"import.*\b{module.stem}\b|\.{module.stem} import", path.read_text())
        and path.name != "__init__.py"
    ]
    own = _named_after(SOURCE / module.relative_to("src"))
    others = [test for path in importers for test in _named_after(path) if test not in own]
    if "ops" in module.parts:
        others += ["tests/ops/test_every_operation.py"]
    if "io" in module.parts:
        others += [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests" / "io").glob("test_*.py"))]
        others += ["tests/malformed/test_malformed.py"]
    if "training" in module.parts:
        others = ["tests/engine/training/test_resume.py"]
    return own, [test for test in dict.fromkeys(others) if test not in own]


def _named_after(path: Path) -> list[str]:
    folder = ROOT / "tests" / path.relative_to(SOURCE / "covpool").parent
    name = path.stem.lstrip("_")
    found = [folder / f"test_{name}.py", *sorted(folder.glob(f"test_{name}_*.py"))]
    return [str(test.relative_to(ROOT)) for test in found if test.is_file()]


class FirstFailure:
    """A pytest plugin: the name of the first test that fails or hangs goes to a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.file.write_text(nodeid)
        _limit_time()

    def pytest_runtest_logfinish(self) -> None:
        _limit_time()

    def pytest_collectreport(self, report: object) -> None:
        if getattr(report, "failed", False):
            self.file.write_text(getattr(report, "nodeid", ""))


def _limit_time() -> None:
    """Have the system end this process after a while, whatever it is doing."""
    signal.alarm(PATIENCE)
    signal.setitimer(signal.ITIMER_PROF, TIMEOUT)


def _run_tests(tests: Sequence[str], source: Path, plugin: FirstFailure) -> None:
    os.setsid()
    _limit_time()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.environ["PYTHONPATH"] = str(source)
    sys.path.insert(0, str(source))
    import pytest

    options = ["-x", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    os._exit(int(pytest.main([*options, *tests], plugins=[plugin])))


def first_failure(tests: Sequence[str], source: Path) -> str | None:
    """Run tests on a copy of the source, in a forked process that has torch already: the first that fails or hangs."""
    if not tests:
        return None
    name = source / "first_failure"
    name.write_text(" ".join(tests))
    child = os.fork()
    if child == 0:
        try:
            _run_tests(tests, source, FirstFailure(name))
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what the tests left behind
    return name.read_text() if status else None


def try_mutant(mutant: Mutant, copy: Path) -> str | None:
    """The test that finds the mutant."""
    changed = copy / Path(mutant.file).relative_to("src")
    text = changed.read_text()
    try:
        changed.write_text(mutant.apply(text))
        failing = next((name for tests in tests_of(mutant.file) if (name := first_failure(tests, copy))), None)
    finally:
        changed.write_text(text)
    if failing:
        _check_unchanged(failing, copy)
    return failing


@cache
def _check_unchanged(test: str, copy: Path) -> None:
    """Stop if a test fails without a change: it would find every mutant."""
    if first_failure([test], copy):
        sys.exit(f"this test fails on the unchanged source: {test}")


def tried_before(file: Path) -> dict[Mutant, bool]:
    """The mutants of a file of results, and whether a test found them in the last attempt."""
    records = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return {Mutant(**{name: record[name] for name in Mutant.__annotations__}): record["killed"] for record in records}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="0/1", help="i/n tries every n-th mutant, to share the work")
    parser.add_argument("--only", default="", help="part of a file name")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--survivors", action="store_true", help="try the survivors again")
    asked = parser.parse_args()
    os.chdir(ROOT)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # a mutant of the same second and size would be taken for the last one
    sys.dont_write_bytecode = True
    for name in SHARED:
        importlib.import_module(name)

    found = [mutant for path in targets() if asked.only in str(path) for mutant in mutants_of(path)]
    chosen = random.Random(asked.seed).sample(found, min(asked.count, len(found)))
    part, parts = map(int, asked.part.split("/"))
    results = tried_before(asked.out)
    with tempfile.TemporaryDirectory() as folder, asked.out.open("a") as out:
        copy = Path(shutil.copytree(SOURCE, Path(folder, "src")))
        for mutant in chosen[part::parts]:
            if mutant in results and (results[mutant] or not asked.survivors):
                continue
            failing = try_mutant(mutant, copy)
            results[mutant] = failing is not None
            out.write(json.dumps({**asdict(mutant), "killed": failing is not None, "by": failing}) + "\n")
            out.flush()
    tried = [mutant for mutant in chosen if mutant in results]
    for mutant in tried:
        if not results[mutant]:
            sys.stdout.write(f"survived: {mutant.file}:{mutant.line}: {mutant.before!r} -> {mutant.after!r}\n")
    killed = sum(results[mutant] for mutant in tried)
    share = killed / max(len(tried), 1)
    sys.stdout.write(f"{killed} of {len(tried)} mutants killed ({share:.0%}), of {len(found)} possible\n")


if __name__ == "__main__":
    main()
