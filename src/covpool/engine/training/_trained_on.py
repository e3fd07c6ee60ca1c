"""A description of the data of a training, so that a run is resumed with the same images."""

from typing import Any

from covpool._errors import CovpoolError
from covpool.data import FileDetail, file_fingerprints
from covpool.data.sets import Splits

WORDS = {
    "names": "the file names of the {} images are different",
    "targets": "some {} images have another class",
    "sizes": "some {} images have another size: they were replaced",
    "contents": "some {} images have other contents: they were replaced",
}


def describe_data(splits: Splits, detail: FileDetail = "sizes") -> dict[str, Any]:
    """Describe the data by the class names, the numbers of images, and fingerprints of their files.

    Args:
        splits: The data.
        detail: What the fingerprints cover, see `covpool.data.file_fingerprints`.
    """
    parts = {"training" if name == "train" else name: images for name, images in splits.parts().items()}
    return {
        "classes": list(splits.train.classes),
        "images": {name: len(images) for name, images in parts.items()},
        "detail": detail,
        "files": {name: file_fingerprints(images, detail) for name, images in parts.items()},
    }


def check_same_data(before: dict[str, Any], splits: Splits, root: str) -> None:
    """Refuse data that differ from those a run was started with.

    Args:
        before: The description of the data at the start, from `describe_data`; empty if it is unknown.
        splits: The data to resume with.
        root: Their folder.
    """
    if not before:
        return
    try:
        now = describe_data(splits, before.get("detail", "names"))
        differences = _classes(before, now) or _counts(before, now) or _files(before, now)
    except (AttributeError, KeyError, TypeError) as error:
        raise CovpoolError("the saved state does not describe its images, so it is damaged: start a new run") from error
    if differences:
        raise CovpoolError(
            f"the images in {root} are not those the run was started with: {', '.join(differences)}; restore them, "
            "name the folder where they are now (data.root=...), or start a new run"
        )


def _classes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    gone, new = (sorted(set(a["classes"]) - set(b["classes"])) for a, b in ((before, now), (now, before)))
    differences = [f"the class {gone[0]!r} is missing"] if gone else []
    differences += [f"the class {new[0]!r} is new"] if new else []
    if not differences and before["classes"] != now["classes"]:
        return ["the order of the classes is different"]
    return differences


def _counts(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [
        f"{now['images'].get(part, 0)} {part} images instead of {before['images'].get(part, 0)}"
        for part in {**before["images"], **now["images"]}
        if before["images"].get(part) != now["images"].get(part)
    ]


def _files(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The first difference of each part; a state without fingerprints has none."""
    differences = []
    for part, marks in before.get("files", {}).items():
        changed = [kind for kind, mark in marks.items() if mark != now["files"][part][kind]]
        differences += [WORDS[kind].format(part) for kind in changed[:1]]
    return differences
