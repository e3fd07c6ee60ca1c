"""The tasks of the demo: handwritten characters, spoken digits, and a folder of the user's images."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from covpool._progress import OnProgress, ignore
from covpool.data import Data, Images
from covpool.data.sets import open_data
from covpool.demo._encoders import CONTROLS, POOLS
from covpool.demo._packages import CHARACTERS, DIGITS, WEIGHTS, locate
from covpool.demo._samples import BACKBONE, TaskSamples, image_samples, standardized, with_deltas
from covpool.models import input_settings

CODES = (*range(ord("0"), ord("9") + 1), *range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1))
TRAINING_CHARACTERS, ALL_CHARACTERS = 10, 50  # of each class
SIDE = 128  # pixels
TRAINING_DIGITS = 1000
BLOCK_OF_DIGITS = 50


@dataclass(frozen=True, eq=False)
class Task:
    """A comparison of methods on one data set.

    Attributes:
        title: What is to be recognized.
        about: Description of the data and of the split, for the page.
        unit: Name of a sample in the plural.
        classes: Number of classes.
        train: Samples that all settings are chosen with.
        open_test: Reads the test samples; called after everything is chosen.
        methods: Names of the methods.
        widths: Numbers of channels after PCA that second-order pools choose from; 0 keeps all channels.
        block: Number of consecutive test samples that a bootstrap resamples together.
        examples: Images to show on the page.
    """

    title: str
    about: str
    unit: str
    classes: int
    train: TaskSamples
    open_test: Callable[[], TaskSamples]
    methods: tuple[str, ...] = (*POOLS, *CONTROLS)
    widths: tuple[int, ...] = (0,)
    block: int = 1
    examples: tuple[Path, ...] = ()


def check_inputs(images: Path | None) -> None:
    """Find missing packages and mistakes in the user's folder before the work begins."""
    for file in (CHARACTERS, WEIGHTS, DIGITS):
        locate(*file)
    if images is not None:
        open_data(Data(root=str(images)))


def characters(on_progress: OnProgress = ignore) -> Task:
    """62 handwritten characters, as feature maps of a frozen MobileNetV2 at 128 pixels."""
    root, weights = locate(*CHARACTERS), str(locate(*WEIGHTS))
    paths = {
        (code, number): root / f"ch_0x{code}_{number}.png" for number in range(1, ALL_CHARACTERS + 1) for code in CODES
    }

    def images(first: int, last: int) -> Images:
        chosen = [key for key in paths if first <= key[1] <= last]
        targets = [CODES.index(code) for code, _ in chosen]
        return Images([paths[key] for key in chosen], targets, tuple(map(chr, CODES)))

    compute = partial(
        image_samples,
        weights=weights,
        settings=replace(input_settings(BACKBONE, weights), size=SIDE, resize=(SIDE,)),
        levels=("features.13", "features.18"),
        on_progress=on_progress,
    )
    return Task(
        title=f"{len(CODES)} handwritten characters: MobileNetV2, pre-trained and frozen",
        about=f"The first {TRAINING_CHARACTERS} images of each character are for training, the other "
        f"{ALL_CHARACTERS - TRAINING_CHARACTERS} for testing. The features come from MobileNetV2, pre-trained on "
        f"ImageNet and frozen, at {SIDE} pixels: from its last layer (stride 32) or from a layer at stride 16. The "
        "intervals resample test images. The files do not name the writers, so training and test images share writers.",
        unit="images",
        classes=len(CODES),
        train=compute(images(1, TRAINING_CHARACTERS)),
        open_test=lambda: compute(images(TRAINING_CHARACTERS + 1, ALL_CHARACTERS)),
        widths=(0, 64),
        examples=tuple(paths[code, 1] for code in CODES),
    )


def digits(on_progress: OnProgress = ignore) -> Task:
    """Ten spoken digits, as sequences of 13 MFCCs with masks; there is no network."""
    with np.load(locate(*DIGITS), allow_pickle=False) as stored:
        frames, targets, lengths = (torch.from_numpy(stored[name]) for name in ("X", "y", "lengths"))
    tokens = torch.nn.utils.rnn.pad_sequence(frames.split(lengths.tolist()), batch_first=True)
    mask = torch.arange(tokens.shape[1]) < lengths[:, None]
    features = {
        name: standardized(variant, mask, TRAINING_DIGITS)
        for name, variant in (("MFCC", tokens), ("MFCC and deltas", with_deltas(tokens, lengths)))
    }
    samples = TaskSamples(features, targets, mask)
    on_progress("sequences", len(samples), len(samples))
    return Task(
        title="Ten spoken digits: sequences of 6 to 92 steps with masks, no network",
        about=f"The first {TRAINING_DIGITS} recordings of the file are for training, the other "
        f"{len(samples) - TRAINING_DIGITS} for testing. A sequence has 13 MFCCs per step, with or without their "
        "changes over time (deltas) as 13 further channels. It goes into the pools as tokens; a mask marks its length. "
        "The file does not name the six speakers, and neighboring recordings resemble each other. Therefore the split "
        f"follows the file's order, and the intervals resample blocks of {BLOCK_OF_DIGITS} consecutive recordings.",
        unit="recordings",
        classes=int(targets.max()) + 1,
        train=samples.select(slice(TRAINING_DIGITS)),
        open_test=lambda: samples.select(slice(TRAINING_DIGITS, None)),
        block=BLOCK_OF_DIGITS,
    )


def folder(root: Path, on_progress: OnProgress = ignore) -> Task:
    """The images of a folder, as feature maps of a frozen MobileNetV2 at its own input size."""
    weights = str(locate(*WEIGHTS))
    splits = open_data(Data(root=str(root)))
    compute = partial(
        image_samples,
        weights=weights,
        settings=input_settings(BACKBONE, weights),
        levels=("features.17", "features.18"),
        on_progress=on_progress,
    )
    return Task(
        title=f"{root.resolve().name}: MobileNetV2, pre-trained and frozen",
        about="The features come from the last layer of MobileNetV2 or from the layer before it, at 224 pixels. The "
        "intervals resample test images.",
        unit="images",
        classes=len(splits.train.classes),
        train=compute(splits.train),
        open_test=lambda: compute(splits.test),
        methods=POOLS,
        widths=(128,),
    )
