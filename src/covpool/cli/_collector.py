"""Imports without Python's garbage collector."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the garbage collector while a block imports modules.

    The imports of a training make 600,000 objects that stay. The collector would visit them again and again, in a sixth
    of the time of the imports. Later collections leave them out. Only programs may use this block, not libraries: it
    freezes the objects of the whole process.
    """
    if not gc.isenabled():  # the user's choice, or an outer block
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)  # frozen objects are not freed when Python exits, and Triton would report leaks
        gc.enable()
