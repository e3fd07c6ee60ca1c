"""Ctrl-C on the command line, in real processes."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from covpool.cli._interrupt import Interrupts
from covpool.recipe import to_toml
from tiny import Process, make_tree, start, tiny_recipe

# Stops as a training with a worker does, then hangs in its clean-up, as a library's threads may.
HANGING = """
import multiprocessing, signal, time
from covpool.cli._interrupt import interrupts
def work():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(60)
multiprocessing.get_context("fork").Process(target=work).start()
interrupts.install()
on_event = interrupts.watching(print)
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    on_event({"event": "stopping"})
    print("cleaning up", flush=True)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
"""


def test_the_second_ends_a_program_that_hangs() -> None:
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", HANGING], stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    for expected in ("ready", "cleaning up"):
        while expected not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)  # until the worker, which has the same output, has ended too
    assert process.returncode == 130 and errors.split() == ["stopped"]


def test_a_program_that_ignores_it_is_left_alone() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        Interrupts().install()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


SWALLOWING = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    sum(range(10**6))
except BaseException:
    pass
"""


def test_an_import_cannot_swallow_it(tmp_path: Path) -> None:
    """torch goes on without numpy if its import fails, whatever the reason, and fails much later."""
    (tmp_path / "swallowing.py").write_text(SWALLOWING)
    program = "from covpool.cli._interrupt import interrupts; interrupts.install(); import swallowing; print('went on')"
    found = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert found.returncode == 130 and found.stderr.split() == ["stopped"] and not found.stdout


def interrupted(process: Process, *delays: float) -> tuple[int, str]:
    for delay in delays:
        time.sleep(delay)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


@pytest.mark.long
def test_the_first_moments() -> None:
    """From 0.3 s after the start, when Python itself has started, through the imports of a short command."""
    for i in range(40):
        process = start("show", "isqrt", program=("covpool",))
        code, output = interrupted(process, 0.3 + i * 0.03)
        assert code in (0, 130, -signal.SIGINT) and "Traceback" not in output, (i, code, output)
        assert code != 130 or output.split()[-1] == "stopped", (i, code, output)


@pytest.mark.long
def test_no_traceback_at_any_moment(tmp_path: Path) -> None:
    """One or two Ctrl-C at random moments from the start of the program on; the run resumes after each."""
    path, draw = tmp_path / "recipe.toml", random.Random(0)
    path.write_text(to_toml(tiny_recipe(make_tree(tmp_path / "tree"), train={"epochs": 400}, data={"workers": 1})))
    for i in range(20):
        run = tmp_path / f"run{i % 4}"
        arguments = ("--resume", run) if (run / "recipe.toml").exists() else (path, "--out", run)
        delays = [draw.uniform(0.3, 12), *([draw.uniform(0, 0.5)] if i % 2 else [])]
        code, output = interrupted(start("train", *arguments, "--no-report", program=("covpool",)), *delays)
        assert code in (130, -signal.SIGINT) and "Traceback" not in output, (i, delays, code, output)
