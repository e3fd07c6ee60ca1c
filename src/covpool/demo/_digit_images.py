"""The demo's handwritten digits as a folder of images, for the notebook."""

import shutil
from pathlib import Path

from covpool.demo import _tasks
from covpool.demo._packages import CHARACTERS, WEIGHTS, locate

DIGITS = 10  # characters


def write_digit_images(folder: Path) -> Path:
    """Write the demo's images of handwritten digits as train/DIGIT/IMAGE and test/DIGIT/IMAGE, half of them each.

    Args:
        folder: Folder to write; it may exist.

    Returns:
        The file with the demo's weights of MobileNetV2.
    """
    root, weights = locate(*CHARACTERS), locate(*WEIGHTS)
    for code in _tasks.CODES[:DIGITS]:
        for number in range(1, _tasks.ALL_CHARACTERS + 1):
            subset = "train" if number <= _tasks.ALL_CHARACTERS // 2 else "test"
            target = folder / subset / chr(code)
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / f"ch_0x{code}_{number}.png", target)
    return weights
