"""Reading what covpool 0.1 wrote beside the weights."""

from collections.abc import Mapping
from typing import Any

PREPROCESSING = ("size", "resize", "mean", "std", "interpolation")
DATA = ("name", "root", "split", "train_on", "test_on")
EVALUATION = ("crops", "flip")


def upgrade(old: Mapping[str, Any]) -> dict[str, Any]:
    """A description of format 1 in the fields of format 2; values are checked afterwards, with those of format 2."""
    kept = old.get("recipe_extra")
    extra = dict(kept) if isinstance(kept, Mapping) else {}
    recipe = extra.pop("training", None)
    tables = recipe if isinstance(recipe, Mapping) else {}
    training = {key: extra.pop(key) for key in ("epoch", "step", "metrics") if key in extra}
    new = {key: old[key] for key in ("class_names", "origin", "versions", "channels_last") if key in old}
    new |= {"architecture": old["recipe"]} if "recipe" in old else {}
    new["preprocessing"] = _only(PREPROCESSING, old.get("preprocessing"))
    new["evaluation"] = _only(EVALUATION, tables.get("evaluate"))
    new["data"] = _only(DATA, tables.get("data"))
    new["training"] = {"recipe": recipe, "notes": extra, **training} if kept is not None else None
    return new


def _only(fields: tuple[str, ...], values: Any) -> Any:
    """The known fields: format 1 kept more settings in these tables, and any mapping as preprocessing."""
    return {key: values[key] for key in fields if key in values} if isinstance(values, Mapping) else values
