import json
from dataclasses import asdict
from typing import Any

import pytest

import covpool
from covpool.models._architecture import AttachedArchitecture, NamedArchitecture, outside_source, read_architecture


def attached(**changes: Any) -> AttachedArchitecture:
    return AttachedArchitecture(**{"backbone": "resnet18", "pool": "isqrt", "num_classes": 3, **changes})


@pytest.mark.parametrize(
    "architecture",
    [
        attached(reduce_to=(16, 8), head_layers=(4,), levels=("a", "b"), pool_options={"normalize": ["l2"]}),
        attached(backbone=("resnet18", "resnet34"), input_size=(64, 32)),
        NamedArchitecture(name="resnet18_isqrt_2k", num_classes=5, pool_options={"iterations": 2}),
    ],
)
def test_json_gives_the_same_architecture(architecture: AttachedArchitecture | NamedArchitecture) -> None:
    assert read_architecture(json.loads(json.dumps(asdict(architecture)))) == architecture


def test_mistakes_in_a_mapping() -> None:
    with pytest.raises(covpool.CovpoolError, match="of kind 'attach' or 'model'; got None"):
        read_architecture({})
    with pytest.raises(covpool.CovpoolError, match=r"must have the fields of that kind: .*name"):
        read_architecture({"kind": "model", "num_classes": 3})
    with pytest.raises(covpool.CovpoolError, match="`num_classes` must be a positive integer; got 0"):
        read_architecture({"kind": "model", "name": "resnet18", "num_classes": 0})


@pytest.mark.parametrize(
    "options",
    [None, {}, {"img_size": [96, 96], "drop_path_rate": 0.1, "act_layer": "relu"}, {"init_weights": False}],
)
def test_scalar_options_stay_inside(options: dict[str, Any] | None) -> None:
    assert outside_source(attached(backbone_options=options)) is None


@pytest.mark.parametrize(
    "options",
    [
        {"colour": 3},
        {"features_only": True},
        {"pretrained": False},
        {"weights": None},
        {"checkpoint_path": ""},
        {"a": {}},
        {"a": [[1]]},
        {"a": "b/c"},
    ],
)
def test_other_options_are_named(options: dict[str, Any]) -> None:
    assert next(iter(options)) in str(outside_source(attached(backbone_options=options)))


def test_addresses_are_named() -> None:
    assert "hf-hub:x/y" in str(outside_source(attached(backbone=("resnet18", "hf-hub:x/y"))))
    assert outside_source(attached(backbone=None)) is None
    assert outside_source(NamedArchitecture(name="resnet18", num_classes=2)) is None
