"""covpool.ops.vech: vech and unvech."""

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import CHANNELS
from covpool.ops import unvech, vech
from ops.oracles import randn, refuses


def symmetric(*shape: int, seed: int = 0) -> Tensor:
    a = randn(*shape, shape[-1], seed=seed)
    return a + a.mT


@pytest.mark.parametrize("c", CHANNELS)
def test_upper_triangle_row_by_row(c: int) -> None:
    a = randn(2, c, c)  # not symmetric: only the upper triangle is read
    expected = a.numpy()[:, *np.triu_indices(c)]
    np.testing.assert_array_equal(vech(a), expected)


@pytest.mark.parametrize("c", CHANNELS)
@pytest.mark.parametrize("scale", [False, True])
def test_unvech_inverts_vech(c: int, scale: bool) -> None:
    a = symmetric(2, c)
    torch.testing.assert_close(unvech(vech(a, scale_offdiagonal=scale), scale_offdiagonal=scale), a)


def test_scaled_off_diagonals_keep_inner_products() -> None:
    a, b = symmetric(5), symmetric(5, seed=1)
    product = vech(a, scale_offdiagonal=True) @ vech(b, scale_offdiagonal=True)
    torch.testing.assert_close(product, (a * b).sum())
    assert abs(vech(a) @ vech(b) - (a * b).sum()) > 1e-3  # the paper's vector does not keep inner products


@pytest.mark.parametrize("scale", [False, True])
def test_derivatives_of_every_kind(scale: bool) -> None:
    a, z = randn(2, 3, 3).requires_grad_(), randn(2, 6, seed=1).requires_grad_()
    for f, t in ((vech, a), (unvech, z)):
        assert torch.autograd.gradcheck(
            lambda t, f=f: f(t, scale_offdiagonal=scale), t, check_forward_ad=True, check_batched_grad=True
        )
    assert torch.autograd.gradgradcheck(lambda a: vech(a, scale_offdiagonal=scale) ** 2, a)


def test_functional_transforms() -> None:
    a = randn(3, 4, 4)
    assert torch.equal(torch.vmap(vech)(a), vech(a))
    assert torch.equal(torch.vmap(unvech)(vech(a)), unvech(vech(a)))
    hessian = torch.func.hessian(lambda a: (vech(a) ** 2).sum())(a[0])
    torch.testing.assert_close(hessian.reshape(16, 16), 2 * torch.diag(torch.ones(4, 4).triu().flatten()).double())


def test_leading_dimensions_strides_and_dtypes() -> None:
    a = randn(2, 3, 4, 4)
    assert torch.equal(vech(a), vech(a.flatten(0, 1)).unflatten(0, (2, 3)))
    assert torch.equal(vech(a.mT), vech(a.mT.contiguous()))
    assert vech(torch.zeros(0, 4, 4)).shape == (0, 10)
    assert unvech(torch.zeros(0, 10)).shape == (0, 4, 4)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):  # nothing is computed, so nothing is promoted
        assert vech(a.to(dtype)).dtype == unvech(vech(a.to(dtype))).dtype == dtype


def test_compiles() -> None:
    torch.compiler.reset()
    a = symmetric(2, 4)
    for f, t in ((vech, a), (unvech, vech(a))):
        assert torch.equal(torch.compile(f, fullgraph=True, backend="aot_eager")(t), f(t))


def test_refusals_name_what_came() -> None:
    with refuses(ValueError, "`a`", "(..., c, c)", "(2, 3)"):
        vech(torch.ones(2, 3))
    with refuses(TypeError, "`a`", "list"):
        vech([[1.0]])  # type: ignore[arg-type]
    with refuses(TypeError, "`a`", "int64"):
        vech(torch.ones(2, 2, dtype=torch.long))
    with refuses(ValueError, "`z`", "1, 3, 6, 10", "(2, 5)"):
        unvech(torch.ones(2, 5))
    with refuses(ValueError, "`z`", "()"):
        unvech(torch.tensor(1.0))
