"""covpool.ops._autograd: the Function that compiles and the one that has a forward derivative."""

import importlib.util
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import covpool.ops  # noqa: F401  (brings every Function)
from covpool.ops import _autograd
from covpool.ops._autograd import Differentiable, gradients_of, is_eager, is_eager_gradient
from ops.oracles import randn

called: list[str] = []


class Cube(Differentiable):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g

    @staticmethod
    def tangent(ctx: Any, dx: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        called.append("jvp")
        return 3 * x * x * dx


def test_gradient_and_second_gradient() -> None:
    x = randn(4).requires_grad_()
    assert torch.autograd.gradcheck(Cube.call, x)
    assert torch.autograd.gradgradcheck(Cube.call, x)


def test_forward_derivative_comes_from_the_subclass() -> None:
    called.clear()
    x, dx = randn(4), randn(4, seed=1)
    _, dz = torch.func.jvp(Cube.call, (x,), (dx,))
    torch.testing.assert_close(dz, 3 * x * x * dx)
    assert called == ["jvp"]


def test_vmap_needs_no_rule_of_ones_own() -> None:
    x = randn(3, 4)
    torch.testing.assert_close(torch.vmap(torch.func.grad(lambda row: Cube.call(row).sum()))(x), 3 * x * x)


def test_hessian() -> None:
    x = randn(4)
    torch.testing.assert_close(torch.func.hessian(lambda x: Cube.call(x).sum())(x), torch.diag(6 * x))


def test_the_class_without_a_forward_derivative_compiles() -> None:
    torch.compiler.reset()
    x = randn(4).requires_grad_()
    z = torch.compile(Cube.call, fullgraph=True, backend="aot_eager")(x)
    (dx,) = torch.autograd.grad(z.sum(), x)
    torch.testing.assert_close(dx, 3 * x.detach() ** 2)


def every_function(base: type[Differentiable]) -> Iterator[type[Differentiable]]:
    for function in base.__subclasses__():
        yield function
        yield from every_function(function)


def test_every_function_names_the_arguments_of_its_forward() -> None:
    found = [function for function in every_function(Differentiable) if function.__module__.startswith("covpool.")]
    assert len(found) >= 10
    for function in (function for function in found if "tangent" in vars(function)):  # neither a base nor derived
        kinds = {parameter.kind for parameter in inspect.signature(function.forward).parameters.values()}
        assert kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD}, function


def test_ordinary_tensors_outside_every_transform_and_mode_are_eager() -> None:
    class Subclass(Tensor):
        pass

    x = randn(2)
    assert is_eager(x, None, torch.nn.Parameter(x), x.clone().requires_grad_())
    assert not is_eager(x, x.as_subclass(Subclass))
    found = []
    torch.vmap(lambda row: found.append(is_eager(row)) or row)(x)
    with FlopCounterMode(display=False):
        found.append(is_eager(x))
    torch.jit.trace(lambda x: found.append(is_eager(x)) or x, x, check_trace=False)
    assert found == [False, False, False]
    assert torch.compile(lambda x: x + is_eager(x), fullgraph=True, backend="eager")(x).equal(x)


def test_a_gradient_that_kernels_may_take_has_no_tangent_and_is_no_batch() -> None:
    x = randn(2).requires_grad_()
    found = []
    z = x * 1
    z.register_hook(lambda g: found.append(is_eager_gradient(g)))
    torch.autograd.grad(z, x, randn(2), retain_graph=True)
    torch.autograd.grad(z, x, randn(3, 2), is_grads_batched=True, retain_graph=True)
    with torch.autograd.forward_ad.dual_level():
        torch.autograd.grad(z, x, randn(2))
    assert found == [True, False, False]


def test_a_torch_without_the_private_functions_takes_the_longer_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        for name in ("_are_functorch_transforms_active", "_get_tracing_state", "_len_torch_dispatch_stack"):
            older.delattr(torch._C, name)
        assert _autograd.__spec__ is not None
        spec = importlib.util.spec_from_file_location("older_autograd", _autograd.__spec__.origin)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    members = {name: vars(Cube)[name] for name in ("forward", "setup_context", "backward", "tangent")}
    cube = type("OlderCube", (module.Differentiable,), members)
    x = randn(4)
    assert not module.is_eager(x)
    torch.testing.assert_close(torch.func.grad(lambda x: cube.call(x).sum())(x), 3 * x * x)


def test_gradients_in_several_inputs_where_no_gradient_is_needed() -> None:
    x, y, g = randn(3), randn(3, seed=1), randn(3, seed=2)
    with torch.no_grad():
        dx, dy = gradients_of(lambda x, y: x * y**2, (x, y), g)
    torch.testing.assert_close((dx, dy), (g * y**2, 2 * g * x * y))
