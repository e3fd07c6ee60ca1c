"""How our autograd Functions are called, so that every transform of torch holds at once.

A Function that defines `jvp` cannot be compiled, and one that does not has no forward-mode derivative. Each Function
therefore has a subclass that adds `jvp`; compilation takes the plain one. `forward` names all its arguments: torch up
to 2.11 at least counts them, where no gradient is wanted, to see whether the first is the context.
"""

from typing import Any

import torch


class Differentiable(torch.autograd.Function):
    """A Function with an automatic vmap rule; `with_jvp` is its subclass that also knows its forward derivative."""

    generate_vmap_rule = True
    with_jvp: type["Differentiable"]

    @classmethod
    def call(cls, *args: Any) -> Any:
        return (cls if torch.compiler.is_compiling() else cls.with_jvp).apply(*args)
