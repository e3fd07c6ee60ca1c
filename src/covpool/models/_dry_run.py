"""Running a network for its shapes only, on the meta device where its operations allow it."""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from covpool._errors import WrongTypeError

M = TypeVar("M", bound=nn.Module)
R = TypeVar("R")
# On the meta device torch runs these activations as Python code, which takes longer than the rest of a network.
ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.Hardswish, nn.Hardsigmoid, nn.GELU)


def share(model: M) -> M:
    """A copy of the modules that shares all parameters and buffers, so that surgery on it does not change `model`."""
    return _copy(model, lambda tensor: tensor)


def without_memory(model: M) -> M:
    """A copy on the meta device."""

    def empty(tensor: Tensor) -> Tensor:
        bare = torch.empty_like(tensor, device="meta")
        return nn.Parameter(bare, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else bare

    return _copy(model, empty)


def _copy(model: M, convert: Callable[[Tensor], Tensor]) -> M:
    """A deep copy in which every parameter and buffer t has become convert(t)."""
    memo: dict[int, Any] = {id(t): convert(t) for t in chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, memo)


def dry_run(model: M, image: tuple[int, ...], run: Callable[[M, Tensor], R], *, values: bool = True) -> R:
    """Call run(model, x) for an image x of shape (channels, h, w), in eval mode, without changing the model.

    A copy on the meta device runs first. If that fails (an operation needs values), the model itself runs, unless
    `values` is False.
    """
    parameter = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(()))
    try:
        with torch.no_grad():
            bare = _without_values(without_memory(model).eval())
            return run(bare, torch.empty(1, *image, dtype=parameter.dtype, device="meta"))
    except Exception:
        if parameter.device.type == "meta" or not values:
            raise
    with torch.no_grad(), evaluating(model):
        return run(model, torch.zeros(1, *image, dtype=parameter.dtype, device=parameter.device))


def _without_values(model: M) -> M:
    """Let activations and batch norms return their input, which has the shape of their output. Changes `model`."""
    for module in model.modules():
        if type(module) in ACTIVATIONS:
            setattr(module, "forward", _same)  # noqa: B010
        elif type(module) is nn.BatchNorm2d:
            setattr(module, "forward", partial(_normed, module))  # noqa: B010
    return model


def _same(x: Tensor) -> Tensor:
    return x


def _normed(norm: nn.BatchNorm2d, x: Tensor) -> Tensor:
    """The input of a batch norm, which must have its channels."""
    norm._check_input_dim(x)
    if x.shape[1] != norm.num_features:
        raise RuntimeError(f"a batch norm must have {norm.num_features} channels; got {tuple(x.shape)}")
    return x


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model in eval mode inside the block; afterwards every module has its own mode again."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@dataclass(frozen=True)
class Call:
    """One call of a module with a feature map: the shapes of its input and output."""

    name: str
    leaf: bool  # it has no children
    before: tuple[int, ...]  # (b, c, h, w)
    after: tuple[int, ...]

    @property
    def shrinks(self) -> bool:
        """Whether the call is a down-sampling. A convolution without padding makes a map smaller by less."""
        return len(self.after) == 4 and all(3 * self.after[i] <= 2 * self.before[i] for i in (2, 3))

    @property
    def positions(self) -> int:
        """Number of positions of the output: h w of a map, n of tokens (b, n, c)."""
        return math.prod(self.after[2:]) if len(self.after) == 4 else self.after[1]


@dataclass
class Observation:
    """Result of a dry run: the shape of each output, the calls with maps in order, and the modules that ran.

    `values` says whether the model needed values to run.
    """

    outputs: tuple[tuple[int, ...], ...] = ()
    calls: list[Call] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    values: bool = False


def observe(model: nn.Module, image: tuple[int, ...], *, values: bool = True) -> Observation:
    """Run a feature extractor dry and record its calls; `values` is that of `dry_run`."""
    return dry_run(model, image, _observe, values=values)


def _observe(model: nn.Module, x: Tensor) -> Observation:
    seen = Observation(values=not x.is_meta)

    def watch(name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        seen.called.add(name)
        taken, given = (_first_tensor(value) for value in (inputs, output))
        if taken is not None and taken.ndim == 4 and given is not None and given.ndim in (3, 4):
            leaf = next(module.children(), None) is None
            seen.calls.append(Call(name, leaf, tuple(taken.shape), tuple(given.shape)))

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            if name:
                hooks.enter_context(module.register_forward_hook(partial(watch, name)))
        output = model(x)
    tensors = output if isinstance(output, tuple) else (output,)
    if not all(isinstance(t, Tensor) for t in tensors):
        raise WrongTypeError(f"a backbone must give feature tensors; got {type(output).__name__}")
    seen.outputs = tuple(tuple(t.shape) for t in tensors)
    return seen


def _first_tensor(value: Any) -> Tensor | None:
    """The value, or the first of several: some patch embeddings return tokens and the size of their grid."""
    if isinstance(value, (tuple, list)) and value:
        value = value[0]
    return value if isinstance(value, Tensor) else None
