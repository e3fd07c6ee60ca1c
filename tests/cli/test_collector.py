"""covpool.cli._collector: modules are imported without garbage collection, which is on again afterwards."""

import subprocess
import sys

PROGRAM = """
import gc
from covpool.cli._collector import uncollected

collections = [0]
gc.callbacks.append(lambda phase, info: collections.__setitem__(0, collections[0] + 1))
before = gc.get_freeze_count()
try:
    with uncollected(), uncollected():
        made = [[] for _ in range(100_000)]
        assert collections == [0] and not gc.isenabled()
        raise ImportError
except ImportError:
    pass
assert gc.isenabled() and gc.get_freeze_count() >= before + 100_000
gc.disable()
with uncollected():
    pass
assert not gc.isenabled()
import triton  # it reports objects that are frozen at the exit as leaks
with uncollected():
    pass
"""


def test_the_collector_pauses_and_leaves_no_trace() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
