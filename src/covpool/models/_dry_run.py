"""Running a network for its shapes only: on a copy without memory, where its operations allow that."""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from covpool._errors import WrongTypeError

M = TypeVar("M", bound=nn.Module)
R = TypeVar("R")


def share(model: M) -> M:
    """A copy of the modules that holds the very same parameters and buffers: surgery on it leaves `model` as it is."""
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
    """run(model, x) for an image x of shape (channels, h, w), in evaluation mode, leaving no trace in the model.

    A copy on the meta device runs first. Where that fails (an operation that needs values), the model itself does,
    unless `values` is False.
    """
    parameter = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(()))
    try:
        with torch.no_grad():
            return run(without_memory(model).eval(), torch.empty(1, *image, dtype=parameter.dtype, device="meta"))
    except Exception:
        if parameter.device.type == "meta" or not values:
            raise
    with torch.no_grad(), evaluating(model):
        return run(model, torch.zeros(1, *image, dtype=parameter.dtype, device=parameter.device))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; afterwards every module has its own mode back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@dataclass(frozen=True)
class Call:
    """One call of a module that takes a map: the shapes of the map and of what comes out."""

    name: str
    leaf: bool  # it has no children
    before: tuple[int, ...]  # (b, c, h, w)
    after: tuple[int, ...]

    @property
    def shrinks(self) -> bool:
        """Whether it is a down-sampling; a convolution without padding trims a map by less."""
        return len(self.after) == 4 and all(3 * self.after[i] <= 2 * self.before[i] for i in (2, 3))

    @property
    def positions(self) -> int:
        """Of what comes out: h w of a map, n of tokens (b, n, c)."""
        return math.prod(self.after[2:]) if len(self.after) == 4 else self.after[1]


@dataclass
class Observation:
    """What a dry run showed: the shape of each output, the calls on maps, in order, and the modules that ran.

    `values` tells that the model needed values to run.
    """

    outputs: tuple[tuple[int, ...], ...] = ()
    calls: list[Call] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    values: bool = False


def observe(model: nn.Module, image: tuple[int, ...], *, values: bool = True) -> Observation:
    """Run a feature extractor dry and report what happened; `values` as in `dry_run`."""
    return dry_run(model, image, _observe, values=values)


def _observe(model: nn.Module, x: Tensor) -> Observation:
    seen = Observation(values=not x.is_meta)

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            seen.called.add(name)
            taken, given = (_first_tensor(value) for value in (inputs, output))
            if taken is not None and taken.ndim == 4 and given is not None and given.ndim in (3, 4):
                leaf = next(module.children(), None) is None
                seen.calls.append(Call(name, leaf, tuple(taken.shape), tuple(given.shape)))

        return hook

    handles = [module.register_forward_hook(watch(name)) for name, module in model.named_modules() if name]
    try:
        output = model(x)
    finally:
        for handle in handles:
            handle.remove()
    tensors = output if isinstance(output, tuple) else (output,)
    if not all(isinstance(t, Tensor) for t in tensors):
        raise WrongTypeError(f"a backbone must give feature tensors; got {type(output).__name__}")
    seen.outputs = tuple(tuple(t.shape) for t in tensors)
    return seen


def _first_tensor(value: Any) -> Tensor | None:
    """The value itself, or the first of several: some patch embeddings return tokens and the size of their grid."""
    if isinstance(value, (tuple, list)) and value:
        value = value[0]
    return value if isinstance(value, Tensor) else None
