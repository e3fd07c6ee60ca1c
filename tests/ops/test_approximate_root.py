"""covpool.ops.approximate_root: the code that both approximations share, mainly their derivatives."""

from collections.abc import Callable
from functools import partial

import pytest
import scipy.linalg
import torch
from torch import Tensor

from cases import features, hard_matrices, spd
from covpool._errors import UnsupportedError
from covpool.ops import covariance, sqrtm_pade, sqrtm_taylor
from covpool.ops.sqrtm_pade import pade_root
from covpool.ops.sqrtm_taylor import taylor_root
from ops.oracles import gradient, randn, refuses, relative_error, rotation

SINGULAR = spd(3.0, 1.0, 1.0, 0.2, 0.0, 0.0)
MATRICES = {**hard_matrices(), "singular": SINGULAR}

both = pytest.mark.parametrize("root", [sqrtm_pade, sqrtm_taylor])
every_backward = pytest.mark.parametrize("backward", ["iterative", "lyapunov", "autograd"])
every_matrix = pytest.mark.parametrize("name", MATRICES)


def lyapunov(z: Tensor, g: Tensor) -> Tensor:
    """Scipy's solution of z x + x z = sym(g)."""
    return torch.from_numpy(scipy.linalg.solve_continuous_lyapunov(z.numpy(), (g + g.T).numpy() / 2))


def published(s: Tensor, z: Tensor, g: Tensor, steps: int = 8) -> Tensor:
    """The published backward of one matrix: b = z / sqrt|s|_F, c = g / sqrt|s|_F."""
    b, c = z / s.norm().sqrt(), g / s.norm().sqrt()
    three = 3 * torch.eye(len(s), dtype=s.dtype)
    for _ in range(steps):
        c = (c @ (three - b @ b) - b @ b @ c + b @ c @ b) / 2
        b = b @ (three - b @ b) / 2
    return (c + c.T) / 4


@both
@every_matrix
def test_the_default_derivative_is_the_published_iteration(root: Callable[..., Tensor], name: str) -> None:
    s = MATRICES[name]
    g = randn(*s.shape)
    assert relative_error(gradient(root, s, g), published(s, root(s), g)) <= 1e-12


@both
@every_matrix
def test_the_exact_derivative_solves_the_lyapunov_equation_of_the_result(
    root: Callable[..., Tensor], name: str
) -> None:
    s = MATRICES[name]
    g = randn(*s.shape)
    assert relative_error(gradient(partial(root, backward="lyapunov"), s, g), lyapunov(root(s), g)) <= 1e-10


@both
@every_matrix
def test_eight_steps_are_nearly_converged_because_no_eigenvalue_of_the_result_is_small(
    root: Callable[..., Tensor], name: str
) -> None:
    s = MATRICES[name]
    g = randn(*s.shape)
    assert relative_error(gradient(root, s, g), lyapunov(root(s), g)) <= 5e-3


@both
def test_all_derivatives_agree_where_the_approximation_has_converged(root: Callable[..., Tensor]) -> None:
    s, g = spd(1.1, 1.0, 0.9), randn(3, 3)
    high = {"order": 20} if root is sqrtm_pade else {"degree": 80}
    expected = lyapunov(torch.from_numpy(scipy.linalg.sqrtm(s.numpy()).real), g)
    for backward in ("iterative", "lyapunov", "autograd"):
        assert relative_error(gradient(partial(root, backward=backward, steps=12, **high), s, g), expected) <= 1e-8


@both
@pytest.mark.parametrize("n", [1, 2, 5])
def test_autograd_is_the_derivative_of_the_value(root: Callable[..., Tensor], n: int) -> None:
    x = features(1, n, 3).requires_grad_()
    f = partial(root, backward="autograd")
    if n == 1:  # the covariance is zero, and so is the derivative
        assert not gradient(lambda x: f(covariance(x)), x, torch.ones(1, 3, 3)).any()
    else:
        assert torch.autograd.gradcheck(lambda x: f(covariance(x)), x, check_forward_ad=True)
        assert n == 2 or torch.autograd.gradgradcheck(lambda x: f(covariance(x)), x)


@both
@pytest.mark.parametrize("backward", ["iterative", "lyapunov"])
def test_forward_mode_is_the_adjoint_of_backward_mode(root: Callable[..., Tensor], backward: str) -> None:
    f, s = partial(root, backward=backward), MATRICES["distinct"]
    g, ds = randn(*s.shape), randn(*s.shape, seed=1)
    _, dz = torch.func.jvp(f, (s,), (ds,))
    torch.testing.assert_close((g * dz).sum(), (gradient(f, s, g) * ds).sum())


@both
@pytest.mark.parametrize("backward", ["iterative", "lyapunov"])
def test_the_derivative_of_the_exact_root_has_no_second_one(root: Callable[..., Tensor], backward: str) -> None:
    with pytest.raises(UnsupportedError, match="second derivatives"):
        torch.autograd.gradgradcheck(partial(root, backward=backward), MATRICES["distinct"].clone().requires_grad_())


@both
@every_backward
def test_homogeneity_of_degree_one_half(root: Callable[..., Tensor], backward: str) -> None:
    f, s = partial(root, backward=backward), MATRICES["singular"]
    g = randn(*s.shape)
    z, ds = f(s), gradient(f, s, g)
    for scale in (1e-16, 1e16):
        assert relative_error(f(scale * s), z * scale**0.5) <= 1e-12
        assert relative_error(gradient(f, scale * s, g), ds * scale**-0.5) <= 1e-10


@both
def test_euler_identity_of_the_true_derivative(root: Callable[..., Tensor]) -> None:
    f, s = partial(root, backward="autograd"), MATRICES["singular"]
    g = randn(*s.shape)
    torch.testing.assert_close((gradient(f, s, g) * s).sum(), 0.5 * (g * f(s)).sum())


@pytest.mark.parametrize("root", [pade_root, taylor_root])
@every_backward
def test_a_symmetric_matrix_whose_gradient_is_symmetrized_later(root: Callable[..., Tensor], backward: str) -> None:
    x, g = features(2, 9, 4), randn(2, 4, 4)
    found = []
    for symmetric in (False, True):

        def pooled(x: Tensor, symmetric: bool = symmetric) -> Tensor:
            return root(covariance(x), 4, backward, 3, symmetric=symmetric)

        found.append((pooled(x), gradient(pooled, x, g)))
    (z, dx), (same, same_dx) = found
    assert torch.equal(z, same) and relative_error(same_dx, dx) <= 1e-12


@both
def test_equivariance_and_symmetric_part(root: Callable[..., Tensor]) -> None:
    s, u = MATRICES["distinct"], rotation(6)
    torch.testing.assert_close(root(u @ s @ u.T), u @ root(s) @ u.T)
    skew = randn(6, 6).triu(1)
    torch.testing.assert_close(root(s + skew - skew.T), root(s))


@both
@every_backward
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zero_has_root_zero_and_a_zero_gradient(root: Callable[..., Tensor], backward: str, dtype: torch.dtype) -> None:
    s = torch.zeros(2, 3, 3, dtype=dtype, requires_grad=True)
    z = root(s, backward=backward)
    (ds,) = torch.autograd.grad(z.sum(), s)
    assert not z.any() and not ds.any()


@both
@every_backward
def test_float32_is_accurate_on_singular_covariances(root: Callable[..., Tensor], backward: str) -> None:
    x = features(2, 9, 30, dtype=torch.float32)
    f = partial(root, backward=backward)

    def pooled(x: Tensor) -> Tensor:
        return f(covariance(x))

    g = randn(2, 30, 30)
    assert relative_error(pooled(x), pooled(x.double())) <= 5e-6
    assert relative_error(gradient(pooled, x, g.float()), gradient(pooled, x.double(), g)) <= 5e-5


@pytest.mark.parametrize("backward", ["iterative", "lyapunov"])  # "autograd" is in test_every_operation.py
def test_compiles_without_graph_breaks(backward: str) -> None:
    torch.compiler.reset()
    s = torch.stack((MATRICES["distinct"], MATRICES["singular"]))
    f = partial(sqrtm_pade, backward=backward, steps=2)
    g = randn(*s.shape)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    assert relative_error(compiled(s), f(s)) <= 1e-12
    assert relative_error(gradient(compiled, s, g), gradient(f, s, g)) <= 1e-12


@both
def test_autocast_lowers_no_derivative(root: Callable[..., Tensor]) -> None:
    s, g = MATRICES["distinct"].float(), randn(6, 6).float()
    for backward in ("iterative", "lyapunov", "autograd"):
        expected = gradient(partial(root, backward=backward), s, g)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(gradient(partial(root, backward=backward), s, g), expected)


@both
def test_empty_batch(root: Callable[..., Tensor]) -> None:
    assert root(torch.zeros(0, 3, 3)).shape == (0, 3, 3)


@both
def test_refusals_name_what_came(root: Callable[..., Tensor]) -> None:
    with refuses(ValueError, "`backward`", "'iterative'", "'lyapunow'", "did you mean 'lyapunov'"):
        root(torch.eye(2), backward="lyapunow")
    with refuses(ValueError, "`steps`", "0"):
        root(torch.eye(2), steps=0)
    with refuses(ValueError, "`a`", "(2, 3)"):
        root(torch.ones(2, 3))
