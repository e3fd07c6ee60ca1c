"""Checks of every operation: agreement with its slow version, dtypes, layouts, faults, autocast and compilation."""

import inspect
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from cases import CHANNELS, features, hard_features
from covpool import ops
from covpool._errors import UnsupportedError
from ops import operations
from ops.operations import FEW_STEPS, OPERATIONS, Entry
from ops.oracles import assert_gradient, relative_error, value_and_gradient

HARD = tuple(hard_features())

every_operation = pytest.mark.parametrize("name", OPERATIONS)
half_precision = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


def slow(entry: Entry, x: Tensor) -> Tensor:
    """The slow version in float64, item by item."""
    return torch.stack([entry.slow(item) for item in x.double()])


@every_operation
@pytest.mark.parametrize("c", CHANNELS)
def test_float64_equals_the_slow_version(name: str, c: int) -> None:
    entry = OPERATIONS[name]
    x = features(2, 9, c)
    assert relative_error(entry.fast(x), slow(entry, x)) <= 1e-12


# The published slope of E-PN is not quite the derivative of its value, and grows without bound at zero.
with_true_slope = pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "epn"])


@with_true_slope
@pytest.mark.parametrize("n", [3, 7, 20])
def test_float64_gradient_through_the_features(name: str, n: int) -> None:
    """Rank-deficient (n <= c), n = c and n > c, under an upstream gradient that is not symmetric."""
    # A shorter step leaves more round-off: with 1e-5, gaussian_lovric misses the limit on some processors.
    assert_gradient(OPERATIONS[name].fast, features(2, n, 7), step=3e-5)


@every_operation
@pytest.mark.parametrize("c", CHANNELS)
def test_float32_is_accurate(name: str, c: int) -> None:
    entry = OPERATIONS[name]
    x = features(2, 9, c, dtype=torch.float32)
    z, dx = value_and_gradient(entry.fast, x)
    _, exact_dx = value_and_gradient(entry.fast, x.double())
    assert z.dtype == dx.dtype == torch.float32
    assert relative_error(z, slow(entry, x)) <= 2e-5 * entry.condition
    if name != "epn":
        assert relative_error(dx, exact_dx) <= 5e-5 * entry.condition or exact_dx.norm() <= 1e-4


@every_operation
@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_hard_features_are_finite(name: str, case: str, dtype: torch.dtype) -> None:
    z, dx = value_and_gradient(OPERATIONS[name].fast, hard_features(dtype=dtype)[case])
    assert z.isfinite().all()
    assert dx.isfinite().all()


@pytest.mark.parametrize("name", [name for name in OPERATIONS if OPERATIONS[name].degree is not None])
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_float32_at_extreme_scales_is_homogeneous(name: str, scale: float) -> None:
    """f(s x) = s^k f(x), and its gradient is s^(k - 1) times that at x."""
    fast, _, degree, _ = OPERATIONS[name]
    assert degree is not None
    x = features(2, 16, 8, dtype=torch.float32)
    (z, dx), (z0, dx0) = value_and_gradient(fast, x * scale), value_and_gradient(fast, x)
    assert relative_error(z, z0.double() * scale**degree) <= 1e-4
    if name != "epn":  # its published slope adds 1e-8 to |z|, in the unit of z
        assert relative_error(dx, dx0.double() * scale ** (degree - 1)) <= 1e-3


@every_operation
def test_positions_in_any_order(name: str) -> None:
    fast = OPERATIONS[name].fast
    x = features(2, 12, 5)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    assert relative_error(fast(x[:, order]), fast(x)) <= 1e-12


@every_operation
def test_strided_and_transposed_features(name: str) -> None:
    fast = OPERATIONS[name].fast
    x = features(2, 10, 6)
    transposed = x.mT.contiguous().mT
    strided = torch.stack((x, x + 1), -1).flatten(-2)[..., ::2]
    expected, expected_dx = value_and_gradient(fast, x)
    for view in (transposed, strided):
        assert not view.is_contiguous()
        leaf = view.detach().requires_grad_()
        assert relative_error(fast(leaf), expected) <= 1e-12
        _, dx = value_and_gradient(fast, view)
        assert relative_error(dx, expected_dx) <= 1e-10


@every_operation
def test_empty_batch(name: str) -> None:
    fast = OPERATIONS[name].fast
    x = torch.zeros(0, 9, 4, requires_grad=True)
    z = fast(x)
    assert z.shape == (0, *fast(torch.zeros(1, 9, 4)).shape[1:])
    z.sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape


@every_operation
def test_leading_dimensions(name: str) -> None:
    """Features may have no leading dimension, or several."""
    fast = OPERATIONS[name].fast
    x = features(6, 9, 4)
    expected = fast(x)
    assert relative_error(fast(x.unflatten(0, (2, 3))), expected.unflatten(0, (2, 3))) <= 1e-12
    assert relative_error(fast(x[0]), expected[0]) <= 1e-12


@every_operation
@half_precision
def test_half_precision_features_give_float32(name: str, dtype: torch.dtype) -> None:
    entry = OPERATIONS[name]
    x = features(2, 9, 5).to(dtype)
    z, dx = value_and_gradient(entry.fast, x)
    assert z.dtype == torch.float32
    assert dx.dtype == dtype
    assert relative_error(z, slow(entry, x)) <= 2e-5


@every_operation
def test_autocast_lowers_nothing(name: str) -> None:
    """Inside autocast, forward and backward give the same bits as outside."""
    fast = OPERATIONS[name].fast
    x = features(2, 9, 5, dtype=torch.float32)
    z, dx = value_and_gradient(fast, x)
    with torch.autocast("cpu", torch.bfloat16):
        lowered, lowered_dx = value_and_gradient(fast, x)
    assert torch.equal(z, lowered)
    assert torch.equal(dx, lowered_dx)


@every_operation
@pytest.mark.parametrize("fault", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("n", [3, 9])
def test_a_fault_stays_visible_in_its_own_item(name: str, fault: float, n: int) -> None:
    fast = OPERATIONS[name].fast
    x = features(3, n, 4, dtype=torch.float32)
    sound = fast(x)
    x[1, 2, 1] = fault
    z = fast(x)
    assert not z[1].isfinite().all()
    assert torch.equal(z[::2], sound[::2])


# Each of these differs by one step from a compiled operation, and another compiled operation has that step too.
VARIANTS = {
    "second_moment",
    "powm_spectral",
    "powm_frobenius",
    "powm_dual_frobenius",
    "clip_log",
    "isqrt_bare",
    "gaussian_calvo",
    "gaussian_nakayama",
}
# test_compiles_with_inductor and test_isqrt_functions.py compile these.
COMPILED_ELSEWHERE = {"sqrtm", "isqrt_primal", "isqrt_dual", "isqrt_spectral", "isqrt_frobenius"}


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in VARIANTS | COMPILED_ELSEWHERE])
def test_compiles_without_graph_breaks(name: str) -> None:
    torch.compiler.reset()
    fast = FEW_STEPS.get(name, OPERATIONS[name].fast)
    x = features(2, 6, 4)
    z, dx = value_and_gradient(fast, x)
    compiled, compiled_dx = value_and_gradient(torch.compile(fast, fullgraph=True, backend="aot_eager"), x)
    assert relative_error(compiled, z) <= 1e-12
    assert relative_error(compiled_dx, dx) <= 1e-10


def test_compiles_with_inductor() -> None:
    """Compile the roots that training uses, in one graph."""
    torch.compiler.reset()

    def fast(x: Tensor) -> Tensor:
        return torch.stack([OPERATIONS[name].fast(x) for name in ("sqrtm", "isqrt_dual", "isqrt_spectral")], 1)

    x = features(2, 6, 8)
    z, dx = value_and_gradient(fast, x)
    compiled, compiled_dx = value_and_gradient(torch.compile(fast, fullgraph=True), x)
    assert relative_error(compiled, z) <= 1e-12
    assert relative_error(compiled_dx, dx) <= 1e-10


@every_operation
def test_vmap_and_functional_gradient(name: str) -> None:
    """vmap over items, and torch.func.grad, agree with plain batched autograd."""
    fast = OPERATIONS[name].fast
    x = features(3, 6, 4)
    z, dx = value_and_gradient(fast, x)
    g = torch.randn(z.shape, dtype=z.dtype, generator=torch.Generator().manual_seed(11))
    assert relative_error(torch.vmap(fast)(x), z) <= 1e-12
    mapped = torch.vmap(torch.func.grad(lambda item, upstream: (fast(item) * upstream).sum()))(x, g)
    assert relative_error(mapped, dx) <= 1e-9


@every_operation
def test_derivatives_of_a_mapped_operation(name: str) -> None:
    """Apply the transforms in the other order: gradient and forward derivative of vmap."""
    fast = OPERATIONS[name].fast
    x, dx = features(3, 6, 4), features(3, 6, 4, seed=1)
    expected = torch.func.grad(lambda x: fast(x).square().sum())(x)
    assert relative_error(torch.func.grad(lambda x: torch.vmap(fast)(x).square().sum())(x), expected) <= 1e-9
    _, dz = torch.func.jvp(fast, (x,), (dx,))
    _, mapped = torch.func.jvp(torch.vmap(fast), (x,), (dx,))
    assert relative_error(mapped, dz) <= 1e-9


@with_true_slope
def test_forward_mode_derivative(name: str) -> None:
    fast = OPERATIONS[name].fast
    x, dx = features(2, 6, 4), features(2, 6, 4, seed=1)
    z, dz = torch.func.jvp(fast, (x,), (dx,))
    step = 1e-5
    assert relative_error(z, fast(x)) <= 1e-12
    assert relative_error(dz, (fast(x + step * dx) - fast(x - step * dx)) / (2 * step)) <= 1e-6


# The first derivative of these is not that of a smooth function, or belongs to a decomposition that is held fixed.
REFUSED = {"sqrtm_k_matrix", "sqrtm_lyapunov", "sqrtm_lyapunov_iterative", "clip", "clip_log", "powm_svd"}
NOT_IN_DUAL = {"powm_dual", "powm_dual_spectral", "powm_dual_frobenius"}


@every_operation
@pytest.mark.parametrize("n", [3, 9])
def test_second_derivative_is_right_or_refused(name: str, n: int) -> None:
    """Singular (n < c) and regular covariances."""
    fast, x = OPERATIONS[name].fast, features(1, n, 4).requires_grad_()
    if name in REFUSED or (name in NOT_IN_DUAL and n > 4):
        with pytest.raises(UnsupportedError, match="second derivatives"):
            torch.autograd.gradgradcheck(fast, x, fast_mode=True)
    else:
        assert torch.autograd.gradgradcheck(fast, x, fast_mode=True)


@every_operation
@pytest.mark.parametrize("n", [3, 9])
def test_forward_mode_over_a_backward_pass_is_right_or_refused(name: str, n: int) -> None:
    """The tangent of a gradient, for tangents of the features and of the upstream gradient, without create_graph."""
    fast, x = OPERATIONS[name].fast, features(1, n, 4).requires_grad_()
    dx, z = features(1, n, 4, seed=1), fast(x)
    g, dg = torch.ones_like(z).cumsum(-1), z.detach().cos()
    with forward_ad.dual_level():
        (dual,) = torch.autograd.grad(z, x, forward_ad.make_dual(g, dg), retain_graph=True)
        tangent = forward_ad.unpack_dual(dual).tangent
    (expected,) = torch.autograd.grad(z, x, dg)
    assert relative_error(tangent, expected) <= 1e-9
    if name in REFUSED or (name in NOT_IN_DUAL and n > 4):
        with pytest.raises(UnsupportedError, match="second derivatives"), forward_ad.dual_level():
            torch.autograd.grad(fast(forward_ad.make_dual(x, dx)), x, g)
        return
    with forward_ad.dual_level():
        (dual,) = torch.autograd.grad(fast(forward_ad.make_dual(x, dx)), x, g)
        tangent = forward_ad.unpack_dual(dual).tangent
    (slope,) = torch.autograd.grad(fast(x), x, g, create_graph=True)
    (expected,) = torch.autograd.grad(slope, x, dx)
    assert relative_error(tangent, expected) <= 1e-9


# Public functions that are not among OPERATIONS: of any tensor, or parts of others.
SIMPLE: dict[str, Callable[[Tensor], Tensor]] = {
    "eigh": lambda x: ops.eigh(ops.covariance(x))[0],
    "l2_normalize": ops.l2_normalize,
    "orthonormalize_qr": ops.orthonormalize_qr,
    "product": lambda x: ops.product(x.mT, x),
    "signed_power": ops.signed_power,
    "symmetrize": lambda x: ops.symmetrize(x.mT @ x.cumsum(1)),
    "unit_length": ops.unit_length,
    "unvech": lambda x: ops.unvech(ops.vech(ops.covariance(x))),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_second_derivative_of_a_simple_operation(name: str) -> None:
    assert torch.autograd.gradgradcheck(SIMPLE[name], features(1, 9, 4).requires_grad_(), fast_mode=True)


def test_every_public_operation_has_its_second_derivative_tested() -> None:
    tested = set(re.findall(r"\bops\.(\w+)", inspect.getsource(operations))) | set(SIMPLE)
    public = {name for name, value in vars(ops).items() if inspect.isfunction(value) and not name.startswith("_")}
    untested = {"at_least_float32", "draw_sketch", "in_autocast", "outside_autocast", "tf32_allowed"}
    of_torch = {"batch_norm", "depthwise_convolution"}  # and the kernels refuse second derivatives
    assert public - tested == untested | of_torch
