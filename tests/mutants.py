"""Mutation testing: change one place of the source at a time, and see whether a test fails.

`make mutants` tries 300 places of ops, io and the state of a training, drawn from a seed. Every mutant is tested by the
tests of its own module, then by those of the modules that import it. Survivors are listed, to be read one by one.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
STATE = ("_state", "_run_folder", "_run_lock", "_same_recipe", "_trained_on")
TIMEOUT = 300  # seconds for the tests of one mutant; an endless loop counts as found

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
        yield repr(node.value + 1) if isinstance(node.value, int) else repr(node.value * 3)
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
    if "training" in module.parts:
        others = ["tests/engine/training/test_resume.py"]
    return own, list(dict.fromkeys(others))


def _named_after(path: Path) -> list[str]:
    folder = ROOT / "tests" / path.relative_to(SOURCE / "covpool").parent
    name = path.stem.lstrip("_")
    found = [folder / f"test_{name}.py", *sorted(folder.glob(f"test_{name}_*.py"))]
    return [str(test.relative_to(ROOT)) for test in found if test.is_file()]


def fails(tests: list[str], source: Path) -> bool:
    """Run tests on a copy of the source, in a forked process that has torch already; too long counts as failing."""
    if not tests:
        return False
    child = os.fork()
    if child == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.environ["PYTHONPATH"] = str(source)
        sys.path.insert(0, str(source))
        import pytest

        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))
    deadline = time.monotonic() + TIMEOUT
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) != 0
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
        time.sleep(0.05)


def try_mutant(mutant: Mutant, copy: Path) -> bool:
    """Whether a test finds the mutant."""
    changed = copy / Path(mutant.file).relative_to("src")
    text = changed.read_text()
    try:
        changed.write_text(mutant.apply(text))
        failing = next((tests for tests in tests_of(mutant.file) if fails(tests, copy)), None)
    finally:
        changed.write_text(text)
    if failing is not None:
        _check_unchanged(tuple(failing), copy)
    return failing is not None


@cache
def _check_unchanged(tests: tuple[str, ...], copy: Path) -> None:
    """Stop if tests fail without a change: they would find every mutant."""
    if fails(list(tests), copy):
        sys.exit(f"these tests fail on the unchanged source: {' '.join(tests)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="0/1", help="i/n tries every n-th mutant, to share the work")
    parser.add_argument("--only", default="", help="part of a file name")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    asked = parser.parse_args()
    os.chdir(ROOT)
    import torch  # noqa: F401  (every fork shares it)

    found = [mutant for path in targets() if asked.only in str(path) for mutant in mutants_of(path)]
    chosen = random.Random(asked.seed).sample(found, min(asked.count, len(found)))
    part, parts = map(int, asked.part.split("/"))
    killed = tried = 0
    with tempfile.TemporaryDirectory() as folder, asked.out.open("a") as out:
        copy = Path(shutil.copytree(SOURCE, Path(folder, "src")))
        for mutant in chosen[part::parts]:
            is_killed = try_mutant(mutant, copy)
            killed, tried = killed + is_killed, tried + 1
            out.write(json.dumps({**asdict(mutant), "killed": is_killed}) + "\n")
            out.flush()
            if not is_killed:
                sys.stdout.write(f"survived: {mutant.file}:{mutant.line}: {mutant.before!r} -> {mutant.after!r}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{killed} of {tried} mutants killed ({killed / max(tried, 1):.0%}), of {len(found)} possible\n")


if __name__ == "__main__":
    main()
