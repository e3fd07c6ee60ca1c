"""Options that several commands share."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from covpool._errors import CovpoolError

if TYPE_CHECKING:
    from covpool.data import Data

Device = Annotated[str, typer.Option(help="Device to run on: cpu or cuda. The default is the GPU if there is one.")]
Flip = Annotated[
    bool | None,
    typer.Option(help="Average the scores of each image and its flipped copy. The default is as in the training."),
]
DataFolder = Annotated[
    str, typer.Option(metavar="FOLDER", help="Folder of the data set, or NAME:FOLDER as in cub:/data/CUB_200_2011.")
]
RecipeName = Annotated[str, typer.Argument(help="Recipe: a TOML file, or a name from `covpool list --recipes`.")]


def chosen_device(asked: str) -> str:
    """Return the device asked for if this machine has it; by default the GPU if there is one.

    >>> chosen_device("cpu")
    'cpu'
    """
    from covpool._device import usable_device

    return usable_device(asked or "auto", "--device")


def split_data(asked: str) -> tuple[str, str]:
    """Split NAME:FOLDER into name and folder. The name is empty if only a folder is given.

    >>> split_data("cub:/data/CUB_200_2011"), split_data("/data/birds")
    (('cub', '/data/CUB_200_2011'), ('', '/data/birds'))
    """
    from covpool.data.sets import list_sets

    name, colon, root = asked.partition(":")
    return (name, root) if colon and name in list_sets() else ("", asked)


def named_folder(asked: str, names: Sequence[str] = ()) -> tuple[str, str]:
    """Split NAME=FOLDER.

    Args:
        asked: Data set as it is typed.
        names: Names that it can have; any name if there are none.

    >>> named_folder("cub200=/data/cub")
    ('cub200', '/data/cub')
    """
    name, equals, folder = asked.partition("=")
    if not equals or not name or not folder or (names and name not in names):
        expected = f" with one of {', '.join(names)}" if names else ", as in cub200=/data/cub"
        raise CovpoolError(f"--data must be NAME=FOLDER{expected}; got {asked!r}")
    return name, folder


def data_overrides(asked: str) -> list[str]:
    """Return the settings of a recipe that name a data set FOLDER or NAME:FOLDER; none for an empty string.

    >>> data_overrides("cub:/data/CUB_200_2011"), data_overrides("")
    (['data.root=/data/CUB_200_2011', 'data.name=cub'], [])
    """
    name, root = split_data(asked)
    return [f"data.root={root}"] * bool(root) + [f"data.name={name}"] * bool(name)


def read_data(asked: str, **settings: Any) -> "Data":
    """Return the settings of the data set NAME:FOLDER or FOLDER; a folder without test images is tested on val.

    Args:
        asked: The data set as it is typed.
        settings: Further settings of the data.
    """
    from covpool.data import Data

    name, root = split_data(asked)
    only_val = (Path(root) / "val").is_dir() and not (Path(root) / "test").is_dir()
    given = {"name": name} if name else {}
    return Data(**{"root": root, "test_on": "val" if only_val else "test", **given, **settings})


@contextmanager
def suggest_skip_broken() -> Iterator[None]:
    """Name the option --skip-broken in the error about an image that cannot be read."""
    from covpool.data import BrokenImage

    try:
        yield
    except BrokenImage as broken:
        raise CovpoolError(
            f"{broken.path} cannot be read ({broken.reason}): repair or remove it, or add --skip-broken"
        ) from broken
