"""What a training learns from, in short: a run goes on with the data it began with."""

from typing import Any

from covpool._errors import CovpoolError
from covpool.data.sets import Splits


def describe_data(splits: Splits) -> dict[str, Any]:
    """The names of the classes, and how many pictures there are."""
    images = {"training": len(splits.train), "test": len(splits.test)}
    return {"classes": list(splits.train.classes), "images": images}


def check_same_data(before: dict[str, Any], splits: Splits, root: str) -> None:
    """Refuse other data than those a run began with.

    Args:
        before: of `describe_data`; empty in a state that was saved before it was kept there.
        splits: what is to be trained on.
        root: where that lies.
    """
    now = describe_data(splits)
    if not before or before == now:
        return
    gone, new = (sorted(set(a["classes"]) - set(b["classes"])) for a, b in ((before, now), (now, before)))
    differences = [f"the class {gone[0]!r} is missing"] if gone else []
    differences += [f"the class {new[0]!r} is new"] if new else []
    if not differences and before["classes"] != now["classes"]:
        differences = ["the classes stand in another order"]
    differences += [
        f"{now['images'][part]} {part} pictures instead of {count}"
        for part, count in before["images"].items()
        if count != now["images"][part]
    ]
    raise CovpoolError(
        f"the pictures in {root} are not those the run began with: {', '.join(differences)}; put them back, name the "
        "folder where they are now (data.root=...), or start a new run"
    )
