"""Every setting of a training run, with its type, its range and its default.

A recipe is a TOML file with one table per class of this module. Training from scratch and fine-tuning use the same
settings with different values.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveInt
from pydantic import model_validator as check_table

from covpool._errors import CovpoolError
from covpool._settings import Options, Seed, Settings, Width
from covpool.data import Augment, Data
from covpool.recipe._stages import resolve_stages

Precision = Literal["32", "bf16", "fp16"]
Fraction = Annotated[float, Field(ge=0, lt=1)]


class Model(Settings):
    """The network: one of covpool's models by `name`, or a `backbone` with the pool of the table `pool`."""

    name: str = ""
    """Name of a model, one of `covpool list --models`. The table `pool` may change options of its pool."""
    backbone: str = ""
    """Name of a backbone: "resnet50" of timm, "torchvision/resnet50", or "covpool/alexnet"."""
    backbone_options: Options = Field(default_factory=dict)
    """Further arguments of the function that builds the backbone."""
    keep_last_stride: bool = False
    """Whether the last stage of the backbone keeps its stride, which gives smaller feature maps."""
    head_layers: tuple[Width, ...] = ()
    """Widths of hidden layers before the classifier."""
    head_norm: bool = True
    """Whether each hidden layer is followed by a batch norm."""
    levels: tuple[str, ...] = ()
    """Modules of the backbone whose outputs feed a pool of several levels."""
    prefix_tokens: Literal["drop", "keep"] = "drop"
    """What to do with the class token and other prefix tokens of a transformer."""
    block: str = ""
    """Block inserted into the backbone: se, cbam, sort or tanh."""
    block_options: Options = Field(default_factory=dict)
    """Options of the block."""

    @check_table(mode="after")
    def _check_one_source(self) -> Self:
        if self.name and self.backbone:
            raise CovpoolError(f"`model.name` = {self.name!r} and `model.backbone` = {self.backbone!r}: choose one")
        return self


class Pool(Settings):
    """The pool: its name and its options, which are written beside the name. `covpool show NAME` lists them."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})

    name: str = "isqrt"
    """Name of the pool, one of those that `covpool list` prints."""
    options: Options = Field(default_factory=dict)
    """Options of the pool."""

    @check_table(mode="before")
    @classmethod
    def _gather_options(cls, table: Any) -> Any:
        """Put the keys beside `name` into `options`."""
        extra = {key: table[key] for key in table if key not in cls.model_fields} if isinstance(table, Mapping) else {}
        if not extra:
            return table
        own = {key: value for key, value in table.items() if key not in extra}
        if not isinstance(own.get("options", {}), Mapping):
            raise CovpoolError(f"`pool.options` must be a table; got {own['options']!r}")
        return {**own, "options": {**own.get("options", {}), **extra}}


class Init(Settings):
    """Where the weights come from before the first step."""

    weights: str = ""
    """File with weights of the backbone, or a covpool checkpoint. A classifier that does not fit is replaced."""
    pretrained: bool = False
    """Whether to download the weights that timm or torchvision offer."""
    reduction: Literal["random", "pca"] = "random"
    """How the reduction of the pool starts: at random, or from the principal axes of features of training images. A
    pool without a reduction, or from a checkpoint, stays as it is."""
    pool_from_data: bool = False
    """Whether to initialize the pool from descriptors of training images (NetVLAD, NetFV and others)."""
    descriptors: PositiveInt = 50_000
    """Number of descriptors collected to initialize the pool."""

    @check_table(mode="after")
    def _check_one_source(self) -> Self:
        if self.pretrained and self.weights:
            raise CovpoolError("`init.pretrained` and `init.weights` both give weights: choose one")
        return self


class Optimizer(Settings):
    """The optimizer: SGD as in the paper, or any optimizer of timm by name."""

    name: str = "sgd"
    """Name of the optimizer: sgd, or one of timm's such as adamw."""
    lr: NonNegativeFloat = 0.1
    """Learning rate."""
    momentum: NonNegativeFloat = 0.9
    """Momentum."""
    nesterov: bool = False
    """Whether SGD uses Nesterov momentum."""
    weight_decay: NonNegativeFloat = 1e-4
    """Weight decay."""
    head_factor: NonNegativeFloat = 1.0
    """Factor on the learning rate of the classifier."""
    head_weight_decay: NonNegativeFloat | None = None
    """Weight decay of the classifier; the same as `weight_decay` when it is not set."""
    decay_norms: bool = True
    """Whether weight decay applies to norms and biases."""
    options: Options = Field(default_factory=dict)
    """Further arguments of the optimizer."""


class Schedule(Settings):
    """How the learning rate changes over the epochs of a stage."""

    name: Literal["constant", "step", "log", "cosine"] = "step"
    """Shape of the schedule."""
    milestones: tuple[int, ...] = ()
    """Epochs at which the "step" schedule multiplies the learning rate by `factor`."""
    factor: NonNegativeFloat = 0.1
    """Factor of the "step" schedule."""
    end: NonNegativeFloat = 0.0
    """Last learning rate of "log" and "cosine", as a fraction of the first. "log" requires more than zero."""
    warmup_epochs: NonNegativeFloat = 0.0
    """Epochs over which the learning rate rises linearly from zero, step by step."""
    per_step: bool = False
    """Whether "cosine" changes the learning rate at every step instead of every epoch."""

    @check_table(mode="after")
    def _check_shape(self) -> Self:
        if self.name == "log" and self.end <= 0:
            raise CovpoolError(
                "`schedule.end` must be more than zero for the log-spaced schedule: it is the last learning rate as a "
                f"fraction of the first; got {self.end}"
            )
        milestones = list(self.milestones)
        if self.name == "step" and (milestones != sorted(set(milestones)) or min(milestones, default=0) < 0):
            raise CovpoolError(f"`schedule.milestones` must be increasing and not negative; got {milestones}")
        return self


class Train(Settings):
    """The training loop."""

    epochs: PositiveInt = 1
    """Number of epochs."""
    batch_size: PositiveInt = 64
    """Images per optimizer step, over all processes and micro-batches."""
    accumulate: PositiveInt = 1
    """Micro-batches per optimizer step."""
    freeze: tuple[str, ...] = ()
    """Parts of the network that do not learn, by the beginning of their names, such as "features"."""
    freeze_norms: bool = False
    """Whether all batch norms keep their running statistics."""
    sync_norms: bool = False
    """Whether batch norms compute their statistics over all processes (GPUs only)."""
    clip_norm: NonNegativeFloat = 0.0
    """Largest norm of the gradient; 0 turns clipping off."""
    label_smoothing: Fraction = 0.0
    """Label smoothing of the cross-entropy."""
    vector_dropout: Fraction = 0.0
    """Probability of dropping each element of the pooled vector before the classifier."""
    ema: Fraction = 0.0
    """Decay of the moving average of the weights that is evaluated; 0 turns it off."""
    precision: Precision = "32"
    """Precision of the forward pass."""
    channels_last: bool = False
    """Whether images and weights use the channels-last memory format."""
    compile: bool = False
    """Whether the network is compiled with torch.compile."""
    kernels: bool = True
    """Whether a GPU computes batch norms and depthwise convolutions by covpool's kernels. They need `channels_last`."""
    graph: bool | Literal["auto"] = "auto"
    """Whether steps are replayed as a CUDA graph, which takes the work off the host. "auto" does so where it works."""
    deterministic: bool = False
    """Whether only deterministic algorithms are used."""
    save_every: NonNegativeInt = 0
    """Steps between saved states; 0 saves one at the end of every epoch only."""
    log_every: PositiveInt = 10
    """Steps between entries of the log."""


class Stage(Settings):
    """One stage of a training with several. Settings that a stage leaves out keep their value."""

    epochs: PositiveInt
    """Number of epochs."""
    batch_size: PositiveInt | None = None
    """Images per optimizer step."""
    freeze: tuple[str, ...] | None = None
    """Parts of the network that do not learn."""
    lr: NonNegativeFloat | None = None
    """Learning rate."""
    head_factor: NonNegativeFloat | None = None
    """Factor on the learning rate of the classifier."""
    weight_decay: NonNegativeFloat | None = None
    """Weight decay."""


class Evaluate(Settings):
    """How the test images are evaluated."""

    every: PositiveInt = 1
    """Epochs between evaluations."""
    crops: Literal[1, 10] = 1
    """Crops per image: the center crop, or ten crops whose scores are averaged."""
    flip: bool = False
    """Whether the scores of an image and its flipped copy are averaged."""
    batch_size: NonNegativeInt = 0
    """Images per batch; 0 takes that of training."""


class Devices(Settings):
    """Where to train, with the values of Lightning Fabric. Under torchrun the number of processes comes from it."""

    accelerator: str = "auto"
    """Kind of device: auto, cpu or cuda."""
    devices: str = "auto"
    """Devices per node: auto, a number, or a list such as "0,1"."""
    nodes: PositiveInt = 1
    """Number of nodes."""
    strategy: str = "auto"
    """How the work is spread over devices: auto, ddp or fsdp."""


class Recipe(Settings):
    """All settings of a training run."""

    IS_TABLE: ClassVar[bool] = False

    name: str = "run"
    """Name of the recipe."""
    about: str = ""
    """What the recipe reproduces."""
    source: Literal["", "paper", "release", "method", "own"] = ""
    """Where rates, epochs and weight decay come from: "paper" is the paper's text, "release" the code of its authors,
    "method" the authors of a compared method, and "own" our choice."""
    seed: Seed = 0
    """Seed of the weights, the order of images and the augmentation."""
    data: Data = Data()
    augment: Augment = Augment()
    model: Model = Model()
    pool: Pool = Pool()
    init: Init = Init()
    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    train: Train = Train()
    stages: tuple[Stage, ...] = ()
    """Stages, one after another. Without any, the training is one stage with the settings of `train`."""
    evaluate: Evaluate = Evaluate()
    devices: Devices = Devices()

    @check_table(mode="after")
    def _check_crops(self) -> Self:
        resize, size = self.augment.resize, self.augment.size
        if self.evaluate.crops == 10 and resize and size and min(resize) < size:
            raise CovpoolError(
                f"`evaluate.crops` = 10 requires `augment.resize` of at least `augment.size` = {size}; got "
                f"{list(resize)}: set augment.resize=[{size}] or larger"
            )
        return self

    @check_table(mode="after")
    def _check_whole_network(self) -> Self:
        """Refuse changes to a named model, and to the network of a checkpoint: they are built as they are."""
        source = self.model.name or self.init.weights
        if self.model.backbone or not source:
            return self
        for key, value in self.model:
            if key == "keep_last_stride" and not self.model.name:
                continue  # a checkpoint of `covpool fit` has a last stride, which training removes or keeps
            if key not in ("name", "backbone") and value != getattr(Model(), key):
                raise CovpoolError(
                    f"`model.{key}` requires a `model.backbone`, and {source} is a whole network: leave it out, or "
                    "set model.backbone"
                )
        if self.init.pretrained and self.model.name:
            raise CovpoolError(
                "`init.pretrained` requires a `model.backbone` of timm or torchvision; give the weights of "
                f"{self.model.name} as a file, init.weights=..."
            )
        return self

    @check_table(mode="after")
    def _check_batch_norms(self) -> Self:
        """Refuse micro-batches of one image if a batch norm acts on pooled vectors."""
        for stage in resolve_stages(self):
            train, head = stage.recipe.train, self.model.head_layers and self.model.head_norm
            if train.freeze_norms or train.batch_size // train.accumulate != 1:
                continue
            in_pool = "bn" in (self.pool.options.get("normalize") or ())
            for setting, part, has_norm in (
                ("pool.normalize", "pool", in_pool),
                ("model.head_norm", "classifier", head),
            ):
                if has_norm and part not in train.freeze:
                    raise CovpoolError(
                        f"`{setting}` is a batch norm over the images of a micro-batch, and requires at least two of "
                        f"them; got `train.batch_size` = {train.batch_size} and `train.accumulate` = "
                        f"{train.accumulate}: use a larger batch"
                    )
        return self


def flat_settings(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """Yield every setting with its name on the command line.

    >>> dict(flat_settings(Recipe(pool=Pool(name="isqrt", options={"iterations": 3}))))["pool.iterations"]
    3
    """
    for name, value in recipe:
        if not isinstance(value, Settings):
            yield name, value
            continue
        for key, setting in value:
            if isinstance(value, Pool) and key == "options":
                yield from ((f"{name}.{option}", chosen) for option, chosen in setting.items())
            else:
                yield f"{name}.{key}", setting
