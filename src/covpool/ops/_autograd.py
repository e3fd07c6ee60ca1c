"""The base class of covpool's autograd Functions, which makes every transform of torch work with them.

A Function that defines `jvp` cannot be compiled, and one that does not define it has no forward-mode derivative. Each
Function therefore gets a subclass with `tangent` as its `jvp`, and compilation uses the plain class. `forward` names
all of its arguments: where no gradient is needed, torch (at least up to 2.11) counts them to decide whether the first
one is the context. In forward mode inside forward mode torch loses the outer tangents of saved tensors: it is refused.
"""

from collections.abc import Callable
from types import NoneType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from covpool._errors import UnsupportedError

# Private to torch. A release without them takes the longer way everywhere.
_transformed = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_tracing = getattr(torch._C, "_get_tracing_state", lambda: True)
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_is_batched = getattr(torch._C._functorch, "is_legacy_batchedtensor", lambda _: True)
_NOT_DEFINED = staticmethod(torch.autograd.Function.setup_context)
_ORDINARY = frozenset((Tensor, nn.Parameter, NoneType))


def is_eager(*tensors: Tensor | None) -> bool:
    """Whether these are ordinary tensors outside compilation, tracing, torch.func and dispatch modes.

    Kernels may then be launched without torch's dispatcher, which takes longer than the launches.
    """
    if torch.compiler.is_compiling() or _tracing() or _transformed() or _dispatch_modes():
        return False
    return _ORDINARY.issuperset(map(type, tensors))


def is_eager_gradient(g: Tensor) -> bool:
    """Whether an upstream gradient is an ordinary tensor: no batch as in `is_grads_batched=True`, and no tangents."""
    return is_eager(g) and not _is_batched(g) and not in_forward_mode()


def needs_derivative(x: Tensor, w: Tensor | None) -> bool:
    """Whether a derivative of a function of these ordinary tensors may be asked for, in reverse or in forward mode."""
    if torch.is_grad_enabled() and (x.requires_grad or (w is not None and w.requires_grad)):
        return True
    return getattr(forward_ad, "_current_level", 0) >= 0  # as in `in_forward_mode`, whose call would take longer


def in_forward_mode() -> bool:
    """Whether torch's forward mode of automatic differentiation is active."""
    return getattr(forward_ad, "_current_level", 0) >= 0  # private to torch; -1 outside forward mode


def differentiated_again() -> bool:
    """Whether a backward pass may itself be differentiated, by create_graph=True or in forward mode."""
    return not torch.compiler.is_compiling() and (torch.is_grad_enabled() or in_forward_mode())


def beyond_kernels(g: Tensor) -> bool:
    """Whether a backward pass needs torch's operations: it may be differentiated again, or g is a batch of gradients.

    Such a batch comes from `is_grads_batched=True`.
    """
    return differentiated_again() or (not torch.compiler.is_compiling() and _is_batched(g))


class Differentiable(torch.autograd.Function):
    """A Function with an automatic vmap rule, whose forward-mode derivative is the static method `tangent`."""

    generate_vmap_rule = True
    with_jvp: type["Differentiable"]
    eager: type["Differentiable"]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "tangent" in cls.__dict__:
            members = {
                "jvp": _refusing_nested_forward_mode(cls.__dict__["tangent"].__func__),
                "__module__": cls.__module__,
            }
            cls.with_jvp = type(f"{cls.__name__}WithJvp", (cls,), members)
            own = {"forward": staticmethod(cls._forward_with_context), "setup_context": _NOT_DEFINED}
            cls.eager = type(f"{cls.__name__}Eager", (cls,), members | own)

    @classmethod
    def call(cls, *args: Any) -> Any:
        """Apply the Function in the form that the current transform needs."""
        if torch.compiler.is_compiling():
            return cls.apply(*args)
        return (cls.with_jvp if _transformed() else cls.eager).apply(*args)

    @classmethod
    def _forward_with_context(cls, ctx: Any, *inputs: Any) -> Any:
        """`forward` and `setup_context` in one, which torch.func does not support.

        Torch inspects the signature of a `forward` that comes with a `setup_context` in every call, which takes longer
        than all else.
        """
        output = cls.forward(*inputs)
        cls.setup_context(ctx, inputs, output)
        return output

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save the tensors among the inputs, which come first (None if absent), and the rest as `ctx.options`."""
        tensors = [value for value in inputs if value is None or isinstance(value, Tensor)]
        ctx.options = inputs[len(tensors) :]
        keep(ctx, *tensors)


class OfKernels(Differentiable):
    """A Function of features x and weights w that is given what the forward kernels return for them.

    That is its value, and the tensors that are saved for the backward pass. `forward` takes x, w, these tensors one by
    one, and the options; in plain eager mode they come as one tuple, because torch examines every argument.
    """

    @classmethod
    def by(cls, kernels: Any, x: Tensor, w: Tensor | None, *options: Any) -> Any:
        """The value by a module of `covpool.kernels`."""
        if not is_eager(x, w):
            given = kernels.forward(x.detach(), None if w is None else w.detach(), *options)
            return (cls if torch.compiler.is_compiling() else cls.with_jvp).apply(x, w, *given, *options)
        if needs_derivative(x, w):
            return cls.eager.apply(x, w, kernels.forward_eager(x, w, *options), *options)
        return kernels.value_eager(x, w, *options)

    @classmethod
    def _forward_with_context(cls, ctx: Any, *inputs: Any) -> Any:
        x, w, (value, *saved), *ctx.options = inputs
        keep(ctx, x, w, *saved)
        return value


def _refusing_nested_forward_mode(tangent: Callable[..., Any]) -> Any:
    def jvp(ctx: Any, *tangents: Any) -> Any:
        functorch = torch._C._functorch
        levels = functorch.get_interpreter_stack() or []
        if sum(level.key() == functorch.TransformType.Jvp for level in levels) > 1:
            raise UnsupportedError(
                "second derivatives by forward mode inside forward mode are not supported: use torch.func.hessian, or "
                "reverse mode (torch.func.jacrev) for one of the two"
            )
        return tangent(ctx, *tangents)

    return staticmethod(jvp)


def keep(ctx: Any, *tensors: Tensor | None) -> None:
    """Save tensors for the backward pass and for the forward-mode derivative; torch's vmap rule needs both alike."""
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)


def gradient_of(function: Callable[[Tensor], Tensor], x: Tensor, g: Tensor) -> Tensor:
    """The gradient of a function in x for the gradient g of its value, differentiable if gradients are enabled."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        leaf = x if again or in_forward_mode() else x.detach().requires_grad_()  # to detach drops the tangent
        (dx,) = torch.autograd.grad(function(leaf), leaf, g, create_graph=again)
    return dx


def gradients_of(function: Callable[..., Tensor], inputs: tuple[Tensor, ...], g: Tensor) -> tuple[Tensor, ...]:
    """The gradients of a function in each of its inputs for the gradient g of its value, not differentiable."""
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in inputs]
        return torch.autograd.grad(function(*leaves), leaves, g)
