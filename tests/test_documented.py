"""Every public name has a docstring and complete annotations."""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import covpool


def public_objects() -> dict[str, Any]:
    """Every class and function that a package of covpool exports, by its dotted name."""
    modules = pkgutil.walk_packages(covpool.__path__, "covpool.")
    packages = [covpool, *(importlib.import_module(module.name) for module in modules if module.ispkg)]
    found: dict[str, Any] = {}
    for package in packages:
        for name in exported(package):
            value = getattr(package, name)
            if inspect.isfunction(value) or inspect.isclass(value):
                found[f"{package.__name__}.{name}"] = value
    return found


def exported(package: Any) -> list[str]:
    """The names in `__all__`, or those that the `__init__` imports under their own name (`from x import A as A`)."""
    if hasattr(package, "__all__"):
        return list(package.__all__)
    tree = ast.parse(inspect.getsource(package))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return [alias.name for node in imports for alias in node.names if alias.asname == alias.name]


PUBLIC = public_objects()


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """A function itself, or the public methods that a class of covpool defines."""
    if inspect.isfunction(value):
        yield value.__qualname__, value
        return
    for name, member in vars(value).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function) and function.__module__.startswith("covpool"):
            yield function.__qualname__, function


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented_and_typed(name: str) -> None:
    value = PUBLIC[name]
    if not (value.__module__ or "").startswith("covpool"):
        return
    assert inspect.getdoc(value), f"{name} needs a docstring"
    for label, function in members(value):
        assert inspect.getdoc(function), f"{label} needs a docstring"
        assert not missing_annotations(function), f"{label} needs annotations: {missing_annotations(function)}"


def missing_annotations(function: Any) -> list[str]:
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    found = [p.name for p in parameters if p.annotation is p.empty]
    return found + (["return"] if inspect.signature(function).return_annotation is inspect.Signature.empty else [])


def test_nothing_is_left_out_by_mistake() -> None:
    assert {
        "covpool.attach",
        "covpool.ops.covariance",
        "covpool.io.Checkpoint",
        "covpool.recipe.Recipe",
    } <= PUBLIC.keys()
