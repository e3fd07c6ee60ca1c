"""Small stand-ins for the packages of the demo, with the same file layout."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.models import mobilenet_v2

from covpool.demo import _compare, _packages, _tasks
from covpool.engine.classifiers import fit_cross_validated
from trees import write_image

CODES = (48, 65, 97)
EACH, TRAINING = 8, 4  # images of each character
RECORDINGS, TRAINING_RECORDINGS = 60, 40


def use_stand_ins(root: Path, patch: pytest.MonkeyPatch) -> None:
    """Install the stand-ins in `root` and make the demo small enough for them."""
    for name, version in _packages.PACKAGES.items():
        info = root / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    _write_digits(root / _packages.DIGITS[1])
    for i, code in enumerate(CODES):
        for number in range(1, EACH + 1):
            path = root / _packages.CHARACTERS[1] / f"ch_0x{code}_{number}.png"
            write_image(path, size=(64, 64), hue=100 * i + number)
    weights = root / _packages.WEIGHTS[1]
    weights.parent.mkdir(parents=True)
    torch.manual_seed(0)
    torch.save(mobilenet_v2().state_dict(), weights)
    patch.syspath_prepend(root)
    for name, value in (
        ("CODES", CODES),
        ("ALL_CHARACTERS", EACH),
        ("TRAINING_CHARACTERS", TRAINING),
        ("SIDE", 64),
        ("TRAINING_DIGITS", TRAINING_RECORDINGS),
        ("BLOCK_OF_DIGITS", 5),
    ):
        patch.setattr(_tasks, name, value)
    patch.setattr(_compare, "fit_cross_validated", partial(fit_cross_validated, penalties=(1e-3, 1e-5)))


def _write_digits(path: Path) -> None:
    """Sequences of two classes with equal means, which only the correlation of two channels tells apart."""
    path.parent.mkdir(parents=True)
    rng = np.random.default_rng(0)
    lengths = rng.integers(30, 60, RECORDINGS)
    targets = np.arange(RECORDINGS) % 2
    sequences = []
    for length, target in zip(lengths, targets, strict=True):
        frames = rng.normal(size=(length, 13))
        frames[:, 1] = (1 if target else -1) * frames[:, 0] + 0.3 * frames[:, 1]
        sequences.append(frames - frames.mean(0))
    np.savez(path, X=np.concatenate(sequences).astype(np.float32), y=targets, lengths=lengths)
