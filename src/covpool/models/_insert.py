"""insert: local second-order and attention blocks inside a ResNet, in one call."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from torch import nn

from covpool._errors import CovpoolError, WrongTypeError, check_choice, did_you_mean
from covpool._registry import documented, documented_options
from covpool.blocks.cbam import ConvolutionalAttention
from covpool.blocks.fb import Compensation, FactorizedBilinear
from covpool.blocks.se import SqueezeExcitation
from covpool.blocks.sort import TAU, SecondOrderResponse
from covpool.models._backbone import device_and_dtype
from covpool.models._dry_run import share
from covpool.models._network import Network
from covpool.models._residual import take_over

M = TypeVar("M", bound=nn.Module)
Change = Callable[..., None]


@dataclass(frozen=True)
class BlockInfo:
    """Description of a block.

    Attributes:
        name: Its key, which is also the command-line value and the suffix of a backbone's name ("resnet50+se").
        title: Its name in its paper.
        paper: The paper that introduced it.
        formula: What it computes, in one line.
        place: Where it is inserted.
        parameters: The parameters it adds, as a formula in the c channels of a residual block's output.
        options: Its keyword arguments and their defaults.
        meanings: What each of these arguments does.
    """

    name: str
    title: str
    paper: str
    formula: str
    place: str
    parameters: str
    options: dict[str, Any]
    meanings: dict[str, str]


_BLOCKS: dict[str, tuple[Change, BlockInfo]] = {}


def insert(backbone: M, block: str, **options: Any) -> M:
    """Insert a block into a copy of a ResNet: "se", "cbam", "sort", "fb" or "tanh".

    `backbone` is not changed; the copy shares its parameters and adds those of the block. Existing tensors keep their
    names, so that weights of the plain backbone load (with strict=False, or before the insertion). Several blocks can
    be inserted one after another. The ResNets of torchvision and timm are supported (BasicBlock and Bottleneck).

    Args:
        backbone: A classifier. Attach a pool afterwards: attach(insert(...), ...). With the published options, a name
            does both: attach("resnet50+se", ...).
        block: One of `list_blocks()`.
        options: Options of the block, see `block_info(block).options` and docs/blocks.md.

    >>> import torch, torchvision
    >>> plain = torchvision.models.resnet18()
    >>> model = insert(plain, "se")
    >>> model.layer1[0].conv1.weight is plain.layer1[0].conv1.weight, model.layer1[0].se.fc1.weight.shape
    (True, torch.Size([4, 64, 1, 1]))
    """
    change, info = _find(block)
    for key in options:
        if key not in info.options:
            raise WrongTypeError(
                f"block {block!r} has no option {key!r}{did_you_mean(key, info.options)}; it takes "
                f"{', '.join(info.options)}"
            )
    if not isinstance(backbone, nn.Module) or isinstance(backbone, Network):
        raise WrongTypeError(
            f"`backbone` must be a classifier of torchvision or timm, before a pool is attached to it; got "
            f"{type(backbone).__name__}: use attach(insert(classifier, {block!r}), ...)"
        )
    model = share(backbone)
    change(model, **options)
    return model


def list_blocks() -> list[str]:
    """The names of all blocks that `insert` takes.

    >>> list_blocks()
    ['se', 'cbam', 'sort', 'fb', 'tanh']
    """
    return list(_BLOCKS)


def block_info(name: str) -> BlockInfo:
    """The description of a block.

    >>> block_info("sort").options
    {'tau': 0.01, 'root': True}
    """
    return _find(name)[1]


def _find(name: str) -> tuple[Change, BlockInfo]:
    if name not in _BLOCKS:
        hint = did_you_mean(name, _BLOCKS)
        raise CovpoolError(f"there is no block named {name!r}{hint}; there are {', '.join(_BLOCKS)}")
    return _BLOCKS[name]


def _block(name: str, **about: str) -> Callable[[Change], Change]:
    """Make a function that inserts a block available by name. Its docstring gives formula and paper."""

    def add(change: Change) -> Change:
        parameters = inspect.signature(change).parameters.values()
        options = {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
        about.update(formula=documented(change, "Formula"), paper=documented(change, "Reference"))
        meanings = documented_options(options, [change])
        _BLOCKS[name] = change, BlockInfo(name, **about, options=options, meanings=meanings)
        return change

    return add


@_block(
    "se",
    title="SE",
    place="every residual branch, after its last batch norm",
    parameters="2 c^2 / r + c / r + c per block",
)
def _insert_se(model: nn.Module, *, reduction: int = 16) -> None:
    """Gate the channels of every residual branch.

    Formula: y = sigmoid(W2 relu(W1 mean(x) + b1) + b2) x
    Reference: Hu et al., Squeeze-and-Excitation Networks, CVPR 2018

    Args:
        model: The ResNet.
        reduction: The gate has a hidden layer of c / reduction channels.
    """
    for block in take_over(model):
        block.add_gate("se", SqueezeExcitation(block.channels, reduction=reduction))


@_block(
    "cbam",
    title="CBAM",
    place="every residual branch, after its last batch norm",
    parameters="2 c^2 / r + c / r + c + 100 per block",
)
def _insert_cbam(model: nn.Module, *, reduction: int = 16) -> None:
    """Gate the channels and positions of every residual branch.

    Formula: y = sigmoid(BN(conv7x7([mean, max] of z))) z, z = sigmoid(MLP(mean(x)) + MLP(max(x))) x
    Reference: Woo et al., CBAM: Convolutional Block Attention Module, ECCV 2018

    Args:
        model: The ResNet.
        reduction: The gate of the channels has a hidden layer of c / reduction channels.
    """
    for block in take_over(model):
        block.add_gate("cbam", ConvolutionalAttention(block.channels, reduction=reduction))


@_block("sort", title="SORT", place="every residual addition", parameters="0")
def _insert_sort(model: nn.Module, *, tau: float = TAU, root: bool = True) -> None:
    """Replace the sum of every residual block.

    Formula: y = a + b + sqrt(relu(a) relu(b) + tau)
    Reference: Wang et al., SORT: Second-Order Response Transform for Visual Recognition, ICCV 2017

    Args:
        model: The ResNet.
        tau: Number under the root, which keeps its derivative finite.
        root: Whether to take the root of the product.
    """
    for block in take_over(model):
        block.set_merge(SecondOrderResponse(tau=tau, root=root))


@_block(
    "fb",
    title="FBN, factorized bilinear layer",
    place="the classifier: every position is scored, the scores are averaged",
    parameters="k c per class",
)
def _insert_fb(
    model: nn.Module,
    *,
    rank: int = 20,
    drop: float = 0.5,
    self_terms: bool = True,
    compensation: Compensation = "inverted",
    activation: Literal["tanh", "relu"] = "tanh",
) -> None:
    """Replace the pool and the classifier.

    Formula: y = mean over positions of b + w^T x + |F x|^2
    Reference: Li et al., Factorized Bilinear Models for Image Recognition, ICCV 2017

    Args:
        model: The ResNet.
        rank: Number of rows of F, per class.
        drop: Probability of dropping a row of F in training.
        self_terms: Whether the products x_i x_i count.
        compensation: How the scale of the kept rows makes up for the dropped ones, see `covpool.blocks`.
        activation: Last activation of the backbone: tanh as published, or relu.
    """
    check_choice("activation", activation, ("tanh", "relu"))
    blocks = take_over(model)
    pool = next((name for name in ("global_pool", "avgpool") if hasattr(model, name)), None)  # timm's, torchvision's
    linear = getattr(model, "fc", None)
    if pool is None or not isinstance(linear, nn.Linear):
        raise CovpoolError(
            f"'fb' takes the place of a pool and a linear classifier `fc`; {type(model).__name__} does not have both"
        )
    options: dict[str, Any] = {"rank": rank, "drop": drop, "self_terms": self_terms, "compensation": compensation}
    layer = FactorizedBilinear(linear.in_features, linear.out_features, **options).to(*device_and_dtype(linear))
    for name, parameter in linear.named_parameters():
        setattr(layer, name, parameter)
    setattr(model, pool, nn.Identity().train(model.training))
    setattr(model, "fc", layer.train(model.training))  # noqa: B010
    if activation == "tanh":
        blocks[-1].set_activation(nn.Tanh())


@_block("tanh", title="tanh before FBN", place="the last activation of the backbone, for the pool fbn", parameters="0")
def _insert_tanh(model: nn.Module) -> None:
    """Replace the last activation.

    Formula: y = tanh(x)
    Reference: Li et al., Factorized Bilinear Models for Image Recognition, ICCV 2017
    """
    norm = getattr(model, "norm", None)
    if isinstance(getattr(norm, "act", None), nn.Module):  # a pre-activation ResNet of timm ends in a norm with its own
        setattr(norm, "act", nn.Tanh().train(model.training))  # noqa: B010
    else:
        take_over(model)[-1].set_activation(nn.Tanh())
