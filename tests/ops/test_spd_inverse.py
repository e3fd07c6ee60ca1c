import torch
from torch import Tensor

from covpool.ops._spd_inverse import spd_inverse
from ops.oracles import randn


def spd(*shape: int, seed: int = 0) -> Tensor:
    a = randn(*shape, shape[-1], seed=seed)
    return a @ a.mT + torch.eye(shape[-1], dtype=a.dtype)


def of_square(root: Tensor) -> tuple[Tensor, Tensor]:
    """Invert I + root root^T, which is symmetric for any `root`."""
    return spd_inverse(root @ root.mT + torch.eye(root.shape[-2], dtype=root.dtype))


def test_equals_torch() -> None:
    a = spd(2, 3, 5)
    inverse, log_determinant = spd_inverse(a)
    torch.testing.assert_close(inverse, torch.linalg.inv(a))
    torch.testing.assert_close(log_determinant, torch.linalg.slogdet(a).logabsdet)


def test_gradients_of_any_order_and_kind() -> None:
    root = randn(2, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(of_square, root, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(of_square, root)


def test_backward_inside_autocast_is_not_lowered() -> None:
    a = spd(6).float()
    g = randn(6, 6, seed=1, dtype=torch.float32)
    expected = torch.autograd.grad((spd_inverse(t := a.clone().requires_grad_())[0] * g).sum(), t)[0]
    with torch.autocast("cpu", torch.bfloat16):
        with torch.autocast("cpu", enabled=False):
            z = (spd_inverse(s := a.clone().requires_grad_())[0] * g).sum()
        (found,) = torch.autograd.grad(z, s)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_what_is_not_positive_definite_stays_visible_and_alone() -> None:
    a = spd(3, 4)
    a[1] = -a[1]
    inverse, log_determinant = spd_inverse(a)
    assert inverse[1].isnan().any() and log_determinant[1].isnan()
    torch.testing.assert_close(inverse[::2], torch.linalg.inv(a[::2]))
