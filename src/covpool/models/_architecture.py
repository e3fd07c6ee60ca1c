"""Architecture: what is needed to build a network again, without its weights."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from covpool._errors import CovpoolError, check_positive_int

# Read by pydantic where an architecture comes from a file; nothing else here needs pydantic.
STRICT = {"extra": "forbid", "strict": True}

PLAIN_TEXT = re.compile(r"[\w.+-]*")  # of a string option: no path, no address
# The options of timm and torchvision that a stored architecture may set: shapes, rates and layers of a network.
STORED_OPTIONS = """
aa_layer act_layer attention_dropout attn_drop_rate aux_logits avg_down base_width block_reduce_first cardinality
channel_multiplier class_token depth depth_mult depths dims distilled drop_block_rate drop_path_rate drop_rate dropout
dynamic_img_pad dynamic_img_size embed_dim embed_dims expand_ratio fc_norm final_norm global_pool growth_rate groups
head_init_scale image_size img_size in_chans init_values init_weights kernel_size layers ls_init_value memory_efficient
mlp_ratio no_embed_class norm_eps norm_layer num_heads num_reg_tokens output_stride pad_type patch_drop_rate patch_size
pos_drop_rate pos_embed pre_norm proj_drop_rate qk_norm qkv_bias reg_tokens replace_stem_pool
replace_stride_with_dilation se_ratio stem_type stem_width stochastic_depth_prob strict_img_size transform_input
use_abs_pos_emb weight_init width_factor width_mult width_per_group window_size zero_init_last zero_init_residual
"""


@dataclass(frozen=True, kw_only=True)
class AttachedArchitecture:
    """A network made by `attach`: the arguments of that call, without those that say where weights come from.

    Attributes:
        kind: Distinguishes this class from `NamedArchitecture` in JSON.
        backbone: Name of the backbone, a tuple of names for several; None if it was given as an object.
        pool: Name of the pool; None if it was given as an object.
        num_classes: Length of the logits.
        keep_last_stride: Whether the last stride stays.
        dense_form: Whether a dense form takes the place of the last stride, as for Swin; None if the network is
            not built yet. covpool 0.2.0 had none: False in files without this field.
        reduce_to: Channels after the reduction, as given to `attach`.
        head_layers: Widths of the hidden layers in the classifier.
        head_norm: Whether these layers have batch norm.
        levels: Modules of the backbone whose outputs feed the pool.
        prefix_tokens: Whether class and register tokens are dropped or pooled.
        input_size: Image size of the dry run; None for the backbone's own.
        backbone_options: Options of a backbone built by name.
        pool_options: Options of the pool.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    kind: Literal["attach"] = "attach"
    backbone: str | tuple[str, ...] | None
    pool: str | None
    num_classes: int
    keep_last_stride: bool = False
    dense_form: bool | None = None
    reduce_to: int | tuple[int, ...] | Literal["auto"] | None = "auto"
    head_layers: tuple[int, ...] = ()
    head_norm: bool = True
    levels: tuple[str, ...] = ()
    prefix_tokens: Literal["drop", "keep"] = "drop"
    input_size: int | tuple[int, int] | None = None
    backbone_options: dict[str, Any] | None = None
    pool_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_positive_int("num_classes", self.num_classes)


@dataclass(frozen=True, kw_only=True)
class NamedArchitecture:
    """A network made by `create_model`.

    Attributes:
        kind: Distinguishes this class from `AttachedArchitecture` in JSON.
        name: Name of the network, one of `list_models()`.
        num_classes: Length of the logits.
        pool_options: Options of the pool.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    kind: Literal["model"] = "model"
    name: str
    num_classes: int
    pool_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_positive_int("num_classes", self.num_classes)


Architecture = AttachedArchitecture | NamedArchitecture


def read_architecture(stored: Mapping[str, Any]) -> Architecture:
    """The architecture that `dataclasses.asdict` turned into a mapping.

    >>> read_architecture({"kind": "model", "name": "resnet18", "num_classes": 5})
    NamedArchitecture(kind='model', name='resnet18', num_classes=5, pool_options={})
    """
    kinds = {"attach": AttachedArchitecture, "model": NamedArchitecture}
    stored = with_stride_form(stored)
    kind = stored.get("kind")
    if kind not in kinds:
        raise CovpoolError(f"an architecture must be of kind 'attach' or 'model'; got {kind!r}")
    try:
        made: Architecture = kinds[kind](**{k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()})
    except TypeError as error:
        raise CovpoolError(f"an architecture of kind {kind!r} must have the fields of that kind: {error}") from error
    return made


def with_stride_form(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """The stored fields of an architecture with `dense_form`, which files of covpool 0.2.0 do not have.

    >>> with_stride_form({"kind": "attach", "backbone": "swin_t"})["dense_form"]
    False
    """
    return {"dense_form": False, **stored} if stored.get("kind") == "attach" else stored


def describe_attached(arguments: dict[str, Any]) -> AttachedArchitecture:
    """The architecture that a call of `attach` builds; backbones and pools given as objects are recorded as None."""
    fields = {f.name for f in dataclasses.fields(AttachedArchitecture)}
    values = {key: value for key, value in arguments.items() if key in fields}
    for key in ("backbone_options", "pool_options"):
        values[key] = as_json(values[key])
    for key in ("head_layers", "levels", "reduce_to", "input_size"):
        values[key] = tuple(values[key]) if isinstance(values[key], list) else values[key]
    names = values["backbone"] if isinstance(values["backbone"], tuple) else (values["backbone"],)
    if not all(isinstance(name, str) for name in names):
        values["backbone"] = None
    if not isinstance(values["pool"], str):
        values["pool"] = None
    return AttachedArchitecture(**values)


def outside_source(architecture: Architecture) -> str | None:
    """What in an architecture could make a library read another file or open a connection; None if nothing can.

    Only options in `STORED_OPTIONS` with plain values (numbers, booleans, words, and lists of them) are known to be
    safe.

    >>> outside_source(AttachedArchitecture(backbone="hf-hub:someone/model", pool="isqrt", num_classes=3))
    "the backbone 'hf-hub:someone/model'"
    """
    if isinstance(architecture, NamedArchitecture) or architecture.backbone is None:
        return None
    names = (architecture.backbone,) if isinstance(architecture.backbone, str) else architecture.backbone
    for name in names:
        if ":" in name:
            return f"the backbone {name!r}"
    for key, value in (architecture.backbone_options or {}).items():
        values = value if isinstance(value, (list, tuple)) else [value]
        if key not in STORED_OPTIONS.split() or not all(map(_is_plain, values)):
            return f"the backbone option {key} = {value!r}"
    return None


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        return PLAIN_TEXT.fullmatch(value) is not None
    return value is None or isinstance(value, (bool, int, float))


def as_json(value: Any) -> Any:
    """The same value with lists in place of tuples, as JSON would give it back."""
    if isinstance(value, Mapping):
        return {key: as_json(v) for key, v in value.items()}
    return [as_json(v) for v in value] if isinstance(value, (tuple, list)) else value
