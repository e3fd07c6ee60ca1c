"""A short description of the data of a training, so that a run is resumed with the same data."""

from typing import Any

from covpool._errors import CovpoolError
from covpool.data.sets import Splits


def describe_data(splits: Splits) -> dict[str, Any]:
    """Describe the data by the class names and the numbers of images."""
    images = {"training": len(splits.train), "test": len(splits.test)}
    return {"classes": list(splits.train.classes), "images": images}


def check_same_data(before: dict[str, Any], splits: Splits, root: str) -> None:
    """Refuse data that differ from those a run was started with.

    Args:
        before: The description of the data at the start, from `describe_data`; empty if it is unknown.
        splits: The data to resume with.
        root: Their folder.
    """
    now = describe_data(splits)
    if not before or before == now:
        return
    gone, new = (sorted(set(a["classes"]) - set(b["classes"])) for a, b in ((before, now), (now, before)))
    differences = [f"the class {gone[0]!r} is missing"] if gone else []
    differences += [f"the class {new[0]!r} is new"] if new else []
    if not differences and before["classes"] != now["classes"]:
        differences = ["the order of the classes is different"]
    differences += [
        f"{now['images'][part]} {part} images instead of {count}"
        for part, count in before["images"].items()
        if count != now["images"][part]
    ]
    raise CovpoolError(
        f"the images in {root} are not those the run was started with: {', '.join(differences)}; restore them, name "
        "the folder where they are now (data.root=...), or start a new run"
    )
