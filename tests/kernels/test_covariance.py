"""covpool.kernels.covariance: value and gradient against float64, in both layouts, on hard features."""

import pytest
import torch
from torch import Tensor

from covpool import ops
from covpool.kernels import covariance
from covpool.ops.covariance import _ByKernels
from kernels.oracles import LARGEST_ERROR, position_weights, randn
from kernels.oracles import covariance as centered_covariance
from ops.oracles import relative_error

SHAPE = (2, 9, 20)  # two tiles of channels for the interpreter


def exact(x: Tensor, w: Tensor | None, centered: bool) -> Tensor:
    x = x.cpu().double()
    if centered:
        return centered_covariance(x, w)
    weights = torch.full(x.shape[:2], 1 / x.shape[1]).double() if w is None else w.cpu().double()
    return x.mT @ (weights.unsqueeze(-1) * x)


def value_and_gradient(
    x: Tensor, w: Tensor | None, g: Tensor, centered: bool, full: bool, precision: str = "float32"
) -> tuple[Tensor, Tensor]:
    z, *saved = covariance.forward_eager(x, w, centered, full, precision)
    return z, covariance.backward_eager(x, w, *saved, g, full, precision)


def exact_value_and_gradient(
    x: Tensor, w: Tensor | None, g: Tensor, centered: bool, full: bool
) -> tuple[Tensor, Tensor]:
    x = x.detach().cpu().double().requires_grad_()
    z = exact(x, w, centered)
    z = z if full else ops.vech(z)
    (dx,) = torch.autograd.grad(z, x, g.cpu().double())
    return z.detach(), dx


def upstream(x: Tensor, full: bool) -> Tensor:
    b, _, c = x.shape
    return randn(b, c, c, seed=1) if full else randn(b, c * (c + 1) // 2, seed=1)


@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize(("centered", "weighted"), [(True, False), (True, True), (False, True)])
def test_value_and_gradient(precision: str, full: bool, centered: bool, weighted: bool) -> None:
    x = randn(*SHAPE) + 1
    w, g = position_weights(*SHAPE[:2]) if weighted else None, upstream(x, full)
    z, dx = value_and_gradient(x, w, g, centered, full, precision)
    truth, slope = exact_value_and_gradient(x, w, g, centered, full)
    assert relative_error(z.cpu(), truth) <= LARGEST_ERROR[precision]
    assert relative_error(dx.cpu(), slope) <= LARGEST_ERROR[precision]


def test_entries_of_channels_of_very_different_scales_are_all_accurate() -> None:
    scales = 10.0 ** torch.linspace(-8, 8, 20)
    x = (randn(2, 9, 20).cpu() * scales).to(randn(1).device)
    z, _, _ = covariance.forward_eager(x, None, True, True, "float32")
    truth = exact(x, None, True)
    deviations = truth.diagonal(dim1=1, dim2=2).sqrt()
    assert ((z.cpu() - truth) / (deviations.unsqueeze(1) * deviations.unsqueeze(2))).abs().max() <= 1e-5
    assert torch.equal(z, z.mT)


def test_a_constant_channel_a_zero_image_and_nan_stay_where_they_are() -> None:
    x, g = randn(3, 9, 5), randn(3, 5, 5, seed=1)
    x[0, :, 2], x[1] = 0.1, 0
    clean = value_and_gradient(x, None, g, True, True)
    assert not clean[0][0, 2].any() and not clean[0][1].any() and not clean[1][1].any()
    x[2, 4, 1] = torch.nan
    z, dx = value_and_gradient(x, None, g, True, True)
    assert z[2].isnan().any() and dx[2].isnan().any()
    assert torch.equal(z[:2], clean[0][:2]) and torch.equal(dx[:2], clean[1][:2])


def test_any_strides_and_a_second_call() -> None:
    g = randn(2, 5, 5, seed=1).mT
    for x in (randn(2, 5, 9).mT, randn(2, 9, 10)[:, :, ::2]):
        truth, slope = exact_value_and_gradient(x, None, g, True, True)
        for _ in range(2):  # recorded, then repeated
            z, dx = value_and_gradient(x, None, g, True, True)
            assert relative_error(z.cpu(), truth) <= 1e-5 and relative_error(dx.cpu(), slope) <= 1e-5
            assert dx.stride() == torch.empty_like(x).stride()


def test_schema_and_fake_shapes() -> None:
    x = randn(1, 3, 2)
    checks = ("test_schema", "test_faketensor")
    for full in (True, False):
        _, *saved = covariance.forward_eager(x, None, True, full, "tf32")
        torch.library.opcheck(covariance.forward, (x, None, True, full, "tf32"), test_utils=checks)
        arguments = (x, None, *saved, upstream(x, full), full, "tf32")
        torch.library.opcheck(covariance.backward, arguments, test_utils=checks)


class TestTheOperation:
    def test_equals_torchs_operations_in_every_derivative(self) -> None:
        x, w = (randn(2, 4, 3) + 1).requires_grad_(), torch.rand(2, 4, device=randn(1).device).requires_grad_()
        for vectorize in (True, False):
            found = []
            for backend in ("triton", "torch"):
                z = ops.covariance(x, weights=w, backend=backend, vectorize=vectorize)
                dx, dw = torch.autograd.grad(z.square().sum(), (x, w), create_graph=True)
                (ddx,) = torch.autograd.grad(dx.square().sum(), x)
                found.append([z, dx, dw, ddx])
            for ours, torchs in zip(*found, strict=True):
                torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-5)

    def test_tangent_and_vmap(self) -> None:
        x, w = randn(2, 6, 3), torch.rand(2, 6, device=randn(1).device) + 0.1
        found = []
        for backend in ("triton", "torch"):
            f = lambda x, w, backend=backend: ops.covariance(x, weights=w, backend=backend)  # noqa: E731
            found.append((*torch.func.jvp(f, (x, w), (x.cos(), w.cos())), torch.vmap(f)(x, w)))
        for ours, torchs in zip(*found, strict=True):
            torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-5)

    def test_masks_leading_dimensions_and_no_images(self) -> None:
        x, mask = randn(2, 1, 6, 3), torch.arange(6, device=randn(1).device).expand(2, 1, 6) < 4
        ours, torchs = (ops.covariance(x, mask=mask, backend=backend) for backend in ("triton", "torch"))
        torch.testing.assert_close(ours, torchs, rtol=1e-5, atol=1e-6)
        assert ops.covariance(x[:0], backend="triton", vectorize=True).shape == (0, 1, 6)

    def test_the_first_derivative_comes_from_the_kernels(self, monkeypatch: pytest.MonkeyPatch) -> None:
        called = []
        monkeypatch.setattr(covariance, "backward_eager", lambda x, *_: called.append(1) or torch.zeros_like(x))
        x = randn(2, 4, 3).requires_grad_()
        torch.autograd.grad(ops.covariance(x, backend="triton").sum(), x)
        assert called and _ByKernels.with_jvp is not _ByKernels
