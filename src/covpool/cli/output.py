"""Where commands write."""

from pathlib import Path

from covpool._errors import CovpoolError


def output_path(source: Path, suffix: str, asked: Path | None) -> Path:
    """The file asked for, else the source's name with another suffix, which must not be taken yet.

    >>> str(output_path(Path("model_best.pth.tar"), ".safetensors", None))
    'model_best.safetensors'
    """
    path = asked or source.with_name(source.name.removesuffix(".tar")).with_suffix(suffix)
    if path.resolve() == source.resolve():
        raise CovpoolError(f"{path} would be written over itself: name another file with --out")
    if asked is None and path.exists():
        raise CovpoolError(f"{path} is there already: name a file with --out, or that one to replace it")
    return path


def make_folder(path: Path) -> None:
    """Make the folder of a file that is to be written: no result is lost for want of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
