"""Descriptions of checkpoints with a mistake: a field, and the value that it is given."""

from typing import Any

# Values that no field takes, or that only some take; a field that takes one is left out in TAKES.
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**30, 1e400, "", "x" * 100, "\x1b[2J", [], {}, [[]], {"a": [1]}, [None], float("nan")),
)
FIELDS = (
    *("format", "architecture", "class_names", "preprocessing", "evaluation", "data", "training", "origin", "versions"),
    *("channels_last", "unknown"),
    *(f"architecture.{name}" for name in ("kind", "backbone", "pool", "num_classes", "keep_last_stride", "reduce_to")),
    *(f"architecture.{name}" for name in ("head_layers", "head_norm", "levels", "prefix_tokens", "input_size")),
    *(f"architecture.{name}" for name in ("backbone_options", "pool_options", "unknown")),
    *(f"preprocessing.{name}" for name in ("size", "resize", "mean", "std", "interpolation", "unknown")),
    *(f"evaluation.{name}" for name in ("crops", "flip")),
    *(f"data.{name}" for name in ("name", "root", "train_on", "split", "split_seed", "split_fraction", "images")),
    *(f"training.{name}" for name in ("epoch", "step", "metrics", "recipe", "notes")),
)
# Fields by themselves, with values that have the right type.
CASES: tuple[tuple[str, Any], ...] = (
    *(("format", value) for value in (0, 3, 99, 1.5, "2")),
    *(("class_names", value) for value in (["a"], ["a"] * 4, ["a", "b", 3], "abc", [["a"], ["b"], ["c"]])),
    *(("architecture.backbone", value) for value in ("no_such", "torchvision/x", "covpool/x", "hf-hub:a/b", "../x")),
    *(("architecture.backbone", value) for value in ("local-dir:/etc", "test_resnet+x", ["test_resnet", "no_such"])),
    *(("architecture.pool", value) for value in ("no_such", "os.system", "../isqrt")),
    *(("architecture.num_classes", value) for value in (4, 10**6, 10**9, 2.5, "3")),
    *(("architecture.reduce_to", value) for value in (4, 9, 10**6, [8, 0], "many", [8, 8])),
    *(("architecture.head_layers", value) for value in ([5], [0], [10**6], ["x"])),
    *(("architecture.levels", value) for value in (["x"], ["layer1"], ["__class__"], [3])),
    *(("architecture.input_size", value) for value in (1, [32], [0, 0], [10**7, 10**7], 10**6)),
    *(("architecture.backbone_options", {name: 1}) for name in ("pretrained", "checkpoint_path", "url", "colour")),
    *(("architecture.backbone_options", {"act_layer": value}) for value in ("no_such", "/etc/passwd", 3, [[1]])),
    *(("architecture.backbone_options", {"in_chans": value}) for value in (0, -1, 10**9, "x", 4)),
    *(("architecture.pool_options", {name: 3}) for name in ("no_such", "layout", "normalize", "project_to", "self")),
    *(("architecture.pool_options", {"iterations": value}) for value in (0, -1, 1.5, "x", None, [1], 10**30)),
    *(("architecture.pool_options", {"reduce_to": value}) for value in (4, "x")),
    *(("architecture.pool_options", {name: "evil.pth"}) for name in ("weights", "pretrained", "backbone_options")),
    *(("architecture.backbone_options", {name: 4000}) for name in ("layers", "depth", "img_size", "base_width")),
    *(("preprocessing.mean", value) for value in ([1], [0, 0, "x"], [0, 0, float("inf")], [0, 0, 0, 0])),
    *(("preprocessing.std", value) for value in ([0, 0, 0], [1, 1, -1], [1, 1])),
    *(("preprocessing.size", value) for value in (10**9, 1.5, "32", [32])),
    *(("preprocessing.resize", value) for value in ([0], [1, 2, 3], [10**9], 32, ["x"])),
    *(("preprocessing.interpolation", value) for value in ("area", 2)),
    *(("evaluation.crops", value) for value in (2, 11)),
    *(("data.split_fraction", value) for value in (1.5, -0.1)),
)
TEXTS = (
    *("", "{", "[]", "null", "3", '"x"', "{}", '{"format": 2}', '{"format": 1}', "\0", "[" * 50_000),
    '{"a":' * 50_000,
)


def tampered() -> list[tuple[str, Any]]:
    """Every field with every value, and the single cases."""
    return [(field, value) for field in FIELDS for value in VALUES] + list(CASES)
