"""What a recipe may say: every setting of a training, typed, with its default.

A recipe is a TOML file with one table per class here; `train.parse` reads it. From scratch and fine-tuning are the same
recipe with other values.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from covpool.data import Augment, Data

Precision = Literal["32", "bf16", "fp16"]
ScheduleName = Literal["constant", "step", "log", "cosine"]


@dataclass(frozen=True, kw_only=True)
class Model:
    """Which network: one of the paper's by `name`, or a pool (table `pool`) attached to a `backbone`."""

    name: str = ""  # one of covpool.list_models(); its pool's options may stand in the table `pool`
    backbone: str = ""  # "resnet50" is timm's, "torchvision/resnet50" torchvision's, "covpool/alexnet" ours
    backbone_options: dict[str, Any] = field(default_factory=dict)
    keep_last_stride: bool = False
    head_layers: tuple[int, ...] = ()  # hidden layers before the classifier
    head_norm: bool = True
    levels: tuple[str, ...] = ()  # modules of the backbone that feed a pool of several levels
    prefix_tokens: Literal["drop", "keep"] = "drop"
    block: str = ""  # a local block inside the backbone: se, cbam, sort, tanh
    block_options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The pool that is attached: its name and its options, as `covpool show NAME` lists them."""

    name: str = "isqrt"
    options: dict[str, Any] = field(default_factory=dict)  # written beside `name` in the table


@dataclass(frozen=True, kw_only=True)
class Init:
    """Where the weights come from before the first step."""

    weights: str = ""  # a file of the backbone's weights, or a covpool checkpoint (with a new classifier if need be)
    pretrained: bool = False  # the weights that timm or torchvision download
    pool_from_data: bool = False  # initialise the pool from descriptors of the training images (NetVLAD, NetFV, ...)
    descriptors: int = 50_000  # that are collected for it


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """SGD as in the paper, or any optimizer of timm by name."""

    name: str = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 1e-4
    head_factor: float = 1.0  # the classifier learns at lr * head_factor
    head_weight_decay: float | None = None  # of the classifier; None: as the rest
    decay_norms: bool = True  # False takes norms and biases out of weight decay
    options: dict[str, Any] = field(default_factory=dict)  # more arguments of the optimizer


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the learning rate goes over the epochs of a stage."""

    name: ScheduleName = "step"
    milestones: tuple[int, ...] = ()  # "step": epochs at which it is multiplied by `factor`
    factor: float = 0.1
    end: float = 0.0  # "log" and "cosine": where it ends, as a fraction of the start ("log" needs one > 0)
    warmup_epochs: float = 0.0  # linear from zero, step by step
    per_step: bool = False  # "cosine": step by step instead of epoch by epoch


@dataclass(frozen=True, kw_only=True)
class Train:
    """The loop."""

    epochs: int = 1
    batch_size: int = 64  # images per optimizer step, over all processes and accumulation steps
    accumulate: int = 1  # micro-batches per optimizer step
    freeze: tuple[str, ...] = ()  # parts of the network that do not learn, by the beginning of their name
    freeze_norms: bool = False  # batch norms keep their statistics, everywhere
    sync_norms: bool = False  # batch norms take their statistics over all processes (GPUs only)
    clip_norm: float = 0.0  # of the gradient; 0 = no clipping
    label_smoothing: float = 0.0
    ema: float = 0.0  # decay of an averaged copy of the weights, which is then evaluated; 0 = none
    precision: Precision = "32"
    channels_last: bool = False
    compile: bool = False
    deterministic: bool = False
    save_every: int = 0  # steps between saved states, besides one per epoch
    log_every: int = 10  # steps


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One part of a training in several stages: what it sets anew, the rest stays. None = as before."""

    epochs: int
    batch_size: int | None = None
    freeze: tuple[str, ...] | None = None
    lr: float | None = None
    head_factor: float | None = None
    weight_decay: float | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """How the test images are judged."""

    every: int = 1  # epochs between evaluations
    crops: Literal[1, 10] = 1
    flip: bool = False  # average the scores of the picture and its mirror image
    batch_size: int = 0  # 0: that of training


@dataclass(frozen=True, kw_only=True)
class Devices:
    """Where it runs, in the words of lightning's Fabric; under torchrun the number comes from there."""

    accelerator: str = "auto"
    devices: str = "auto"  # "auto", a number, or a list such as "0,1"
    nodes: int = 1
    strategy: str = "auto"  # "auto", "ddp", "fsdp"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A whole training."""

    name: str = "run"
    about: str = ""  # what it reproduces, for people
    seed: int = 0
    data: Data = field(default_factory=Data)
    augment: Augment = field(default_factory=Augment)
    model: Model = field(default_factory=Model)
    pool: Pool = field(default_factory=Pool)
    init: Init = field(default_factory=Init)
    optimizer: Optimizer = field(default_factory=Optimizer)
    schedule: Schedule = field(default_factory=Schedule)
    train: Train = field(default_factory=Train)
    stages: tuple[Stage, ...] = ()  # one after another; none = one stage as `train` says
    evaluate: Evaluate = field(default_factory=Evaluate)
    devices: Devices = field(default_factory=Devices)
