"""covpool.kernels.isqrt: value and gradient against float64, in every mode, on hard features, in poisoned memory."""

from typing import Any

import pytest
import torch
from torch import Tensor

from covpool import ops
from covpool.kernels import isqrt, launch
from covpool.kernels.precision import PRECISIONS
from covpool.kernels.shape import Tiling
from kernels.oracles import (
    DEVICE,
    LARGEST_ERROR,
    SEVERAL_TILES,
    combinations,
    isqrt_and_gradient,
    position_weights,
    randn,
)
from ops.oracles import relative_error

FORMS = ("primal", "dual")
OTHER_SIDE = 150 if DEVICE == "cuda" else 9  # one tile for the interpreter, which is slow
SHAPES = {"primal": (1, OTHER_SIDE, SEVERAL_TILES), "dual": (1, SEVERAL_TILES, OTHER_SIDE)}
ON_GPU = [(3, 196, 256), (40, 300, 256), (3, 49, 256), (2, 100, 512), (3, 784, 64), (2, 1100, 40)]
ON_GPU = ON_GPU if DEVICE == "cuda" else []


def root(
    x: Tensor, w: Tensor | None, g: Tensor, form: str,
    iterations: int = 3, postcomp: bool = True, precision: str = "float32",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The triangle of the root, and the gradient in x for the gradient g of that triangle."""
    options = (form, iterations, postcomp, precision)
    z, *saved = isqrt.forward(x, w, *options)
    return z, isqrt.backward(x, w, *saved, g, *options)


def upstream(x: Tensor) -> Tensor:
    return randn(x.shape[0], isqrt.triangle(x.shape[2]), seed=1)


def assert_exact(x: Tensor, w: Tensor | None, form: str, **options: Any) -> None:
    """Check value and gradient against float64, with the tolerance of the precision."""
    g = upstream(x)
    z, dx = root(x, w, g, form, **options)
    exact, exact_dx = isqrt_and_gradient(x, w, g, options.get("iterations", 3), options.get("postcomp", True))
    largest = LARGEST_ERROR[options.get("precision", "float32")]
    assert z.dtype == torch.float32 and dx.dtype == x.dtype
    assert relative_error(z, exact) <= largest
    assert relative_error(dx, exact_dx) <= largest


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_precision_in_both_forms_and_launches(form: str, precision: str) -> None:
    assert_exact(randn(*SHAPES[form]) + 3, None, form, iterations=3, precision=precision)


@pytest.mark.parametrize(
    ("form", "precision", "postcomp", "weighted"),
    combinations(
        FORMS,
        ("tf32", "bf16"),
        (True, False),
        (True, False),
        few=[
            ("primal", "tf32", True, True),
            ("primal", "bf16", False, False),
            ("primal", "tf32", False, True),
            ("dual", "tf32", False, False),
            ("dual", "bf16", True, True),
            ("dual", "bf16", True, False),
        ],
    ),
)
def test_on_the_chip(form: str, precision: str, postcomp: bool, weighted: bool) -> None:
    b, n, c = (2, 20, 9) if form == "primal" else (2, 9, 20)  # the smaller side is one tile
    assert launch.stays_on_chip(min(n, c), 1)
    w = position_weights(b, n) if weighted else None
    assert_exact(randn(b, n, c) + 3, w, form, iterations=3, postcomp=postcomp, precision=precision)


@pytest.mark.parametrize(
    ("form", "iterations"),
    combinations(FORMS, (4, 5, 6, 7), few=[("primal", 4), ("dual", 5), ("primal", 6), ("dual", 7)]),
)
def test_number_of_iterations(form: str, iterations: int) -> None:
    assert_exact(randn(*SHAPES[form]), None, form, iterations=iterations)
    if DEVICE == "cuda":  # where the shapes above fit into one tile
        assert_exact(randn(2, 200, 140), None, form, iterations=iterations)


@pytest.mark.parametrize(("form", "iterations"), combinations(FORMS, (3, 5, 7), few=[("primal", 7), ("dual", 3)]))
def test_features_of_low_rank(form: str, iterations: int) -> None:
    b, n, c = SHAPES[form]
    assert_exact(randn(b, n, 9) @ randn(b, 9, c, seed=2), None, form, iterations=iterations)


@pytest.mark.parametrize(
    ("form", "postcomp", "weighted"),
    combinations(
        FORMS,
        (True, False),
        (True, False),
        few=[("primal", True, True), ("primal", False, False), ("dual", True, False), ("dual", False, True)],
    ),
)
def test_weights_and_compensation(form: str, postcomp: bool, weighted: bool) -> None:
    x = randn(2, 9, 18) + 3
    assert_exact(x, position_weights(2, 9) if weighted else None, form, postcomp=postcomp)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(1, 18, 5), (1, 5, 18), (1, 2, 1), *ON_GPU])
def test_shapes(form: str, shape: tuple[int, int, int]) -> None:
    assert_exact(randn(*shape), None, form)


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", ON_GPU)
def test_real_shapes_with_five_iterations(form: str, precision: str, shape: tuple[int, int, int]) -> None:
    assert_exact(randn(*shape), position_weights(*shape[:2]), form, iterations=5, precision=precision)


@pytest.mark.parametrize("form", FORMS)
def test_the_gradient_of_channels_first_features_has_their_strides(form: str) -> None:
    x = randn(2, 5, 12).mT
    assert_exact(x, None, form)
    _, dx = root(x, None, upstream(x), form)
    assert dx.stride() == x.stride()


@pytest.mark.parametrize("form", FORMS)
def test_every_other_channel_of_a_wider_tensor(form: str) -> None:
    wide = randn(2, 9, 2 * 5)
    assert_exact(wide[:, :, ::2], None, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_features_cost_only_the_rounding_of_the_gradient(form: str, dtype: torch.dtype) -> None:
    x = randn(2, 9, 5).to(dtype)
    g = upstream(x)
    z, dx = root(x, None, g, form)
    exact, exact_dx = isqrt_and_gradient(x, None, g, 3, True)
    assert z.dtype == torch.float32 and dx.dtype == dtype
    assert relative_error(z, exact) <= 1e-5
    assert relative_error(dx, exact_dx) <= torch.finfo(dtype).eps


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize(
    ("form", "postcomp", "precision"),
    combinations(
        FORMS,
        (True, False),
        ("float32", "tf32"),  # through memory, and on the chip
        few=[
            ("primal", True, "float32"),
            ("primal", False, "tf32"),
            ("dual", True, "tf32"),
            ("dual", False, "float32"),
        ],
    ),
)
def test_zero_maps_give_zero_and_leave_the_others_alone(form: str, postcomp: bool, precision: str) -> None:
    x = randn(2, 9, 5)
    x[0] = 0
    g = upstream(x)
    z, dx = root(x, None, g, form, postcomp=postcomp, precision=precision)
    assert not z[0].any() and not dx[0].any()
    alone, alone_dx = root(x[1:], None, g[1:], form, postcomp=postcomp, precision=precision)
    assert torch.equal(z[1:], alone) and torch.equal(dx[1:], alone_dx)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("x", [randn(1, 1, 20), torch.full((1, 9, 20), 2.5, device=DEVICE)], ids=["one", "constant"])
def test_features_without_variance_give_zero(form: str, x: Tensor) -> None:
    z, dx = root(x, None, upstream(x), form)
    assert not z.any() and not dx.any()


@pytest.mark.parametrize("form", FORMS)
def test_weights_that_keep_no_position_give_zero(form: str) -> None:
    x = randn(1, 9, 5)
    z, dx = root(x, x.new_zeros(1, 9), upstream(x), form)
    assert not z.any() and not dx.any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scale_of_the_features(form: str, scale: float) -> None:
    for postcomp in (True, False):
        assert_exact(randn(1, 9, 5) * scale, None, form, postcomp=postcomp)


@pytest.mark.parametrize("form", FORMS)
def test_a_gradient_of_zero_gives_zero_and_its_scale_does_not_matter(form: str) -> None:
    x = randn(3, 9, 5)
    g = upstream(x)
    g = torch.stack([torch.zeros_like(g[0]), g[1] * 2.0**-30, g[2] * 2.0**30])
    _, dx = root(x, None, g, form)
    _, exact_dx = isqrt_and_gradient(x, None, g, 3, True)
    assert not dx[0].any()
    for value, exact in zip(dx[1:], exact_dx[1:], strict=True):
        assert relative_error(value, exact) <= 1e-5


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize(
    ("form", "precision"),
    combinations(FORMS, ("float32", "tf32"), few=[("primal", "float32"), ("dual", "tf32")]),
)
def test_nan_stays_in_its_item(form: str, precision: str) -> None:
    x = randn(2, 9, 5)
    g = upstream(x)
    clean, clean_dx = root(x, None, g, form, precision=precision)
    x[0, 4, 2] = torch.nan
    z, dx = root(x, None, g, form, precision=precision)
    assert z[0].isnan().any() and dx[0].isnan().any()
    assert torch.equal(z[1], clean[1]) and torch.equal(dx[1], clean_dx[1])


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize("form", FORMS)
def test_two_runs_give_the_same_bits(form: str) -> None:
    x = randn(2, 9, 5) if DEVICE == "cpu" else randn(64, 196, 256)
    first, second = root(x, None, upstream(x), form), root(x, None, upstream(x), form)
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_empty_batch(form: str, precision: str) -> None:
    x = randn(0, 9, 5)
    z, dx = root(x, None, upstream(x), form, precision=precision)
    assert z.shape == (0, 15) and dx.shape == x.shape


def test_refuses_eight_iterations() -> None:
    with pytest.raises(ValueError, match="3 to 7 iterations; got 8"):
        isqrt.forward(randn(1, 9, 5), None, "primal", 8, True, "tf32")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_schema_and_fake_shapes(form: str, dtype: torch.dtype) -> None:
    x = randn(2, 5, 9).mT.to(dtype)
    options = (form, 3, True, "tf32")
    _, *saved = isqrt.forward(x, None, *options)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(isqrt.forward, (x, None, *options), test_utils=checks)
    torch.library.opcheck(isqrt.backward, (x, None, *saved, upstream(x), *options), test_utils=checks)


@pytest.mark.parametrize(
    ("form", "weighted"), combinations(FORMS, (False, True), few=[("primal", False), ("dual", True)])
)
def test_the_gradient_loses_nothing_to_a_large_mean(form: str, weighted: bool) -> None:
    b, n, c = SHAPES[form]
    assert_exact(randn(b, n, c) + 1e4, position_weights(b, n) if weighted else None, form)


@pytest.mark.parametrize(
    ("form", "postcomp"), combinations(FORMS, (True, False), few=[("primal", True), ("dual", False)])
)
def test_equal_features_have_no_variance_in_spite_of_rounding(form: str, postcomp: bool) -> None:
    x = torch.full(SHAPES[form], 0.1, device=DEVICE)  # the sum of these, divided by n, is not 0.1 in float32
    z, dx = root(x, None, upstream(x), form, postcomp=postcomp)
    assert not z.any() and not dx.any()


@pytest.mark.parametrize("form", FORMS)
def test_features_whose_squares_nearly_overflow(form: str) -> None:
    assert_exact(randn(*SHAPES[form]) * 1e18, None, form)


@pytest.mark.parametrize("form", FORMS)
def test_weights_in_any_layout(form: str) -> None:
    _, n, c = SHAPES[form]
    w = position_weights(2, n)
    assert_exact(randn(2, n, c), w.T.contiguous().T, form)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("weights", [2000.0, 1e-8, None], ids=["large", "small", "mask"])
def test_positions_of_half_precision_features_are_weighted_in_float32(
    dtype: torch.dtype, weights: float | None
) -> None:
    x = (randn(2, 60, 6) + 2).to(dtype)
    kept = torch.arange(60, device=DEVICE).expand(2, -1) % 3 > 0
    w = kept if weights is None else kept * weights
    expected, _ = isqrt_and_gradient(x, w / kept.sum(-1, keepdim=True) / (weights or 1), upstream(x), 5, True)
    chosen = {"mask": kept} if weights is None else {"weights": w}
    z = ops.isqrt_covariance(x, backend="triton", precision="float32", vectorize=True, **chosen)
    assert relative_error(z, expected) <= LARGEST_ERROR["float32"]


def test_an_empty_batch_through_the_operation() -> None:
    x = randn(0, 9, 5).requires_grad_()
    for vectorize, shape in ((True, (0, 15)), (False, (0, 5, 5))):
        z = ops.isqrt_covariance(x, backend="triton", vectorize=vectorize)
        assert z.shape == shape
        (dx,) = torch.autograd.grad(z.sum(), x)
        assert dx.shape == x.shape


def test_weights_that_require_grad_go_through_the_kernels_of_the_root() -> None:
    x, w = randn(2, 9, 5), torch.rand(2, 9, device=DEVICE).requires_grad_()
    z = ops.isqrt_covariance(x, weights=w, backend="triton", precision="float32")
    torch.testing.assert_close(z, ops.isqrt_covariance(x, weights=w, backend="torch"), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="3 to 7 iterations"):
        ops.isqrt_covariance(x, weights=w, backend="triton", iterations=20)


def test_compiled_once_for_any_number_of_channels() -> None:
    compiled = torch.compile(
        lambda x: ops.isqrt_covariance(x, backend="triton"), fullgraph=True, dynamic=True, backend="eager"
    )
    for c in (6, 7):
        assert compiled(randn(2, 20, c)).shape == (2, c, c)


@pytest.mark.parametrize(
    "shapes",
    [[(b, 150, 140) for b in (2, 20, 40, 60, 200)], [(2, n, 1000) for n in (70, 150, 300, 700)]],
    ids=["batch", "positions"],
)
def test_compiled_once_for_any_batch_and_size(shapes: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "tiling", lambda *_: Tiling(128, 64, 8, 3, 128, 8))
    graphs = []

    def trace_only(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return lambda *_: [torch.zeros(())]

    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: ops.isqrt_covariance(x, backend="triton"), fullgraph=True, dynamic=True, backend=trace_only
    )
    for shape in shapes:
        compiled(torch.zeros(shape, device=DEVICE))
    assert len(graphs) == 1


# On the GPU the moments of few positions and the operand are computed in one launch.
@pytest.mark.parametrize(
    ("form", "launches"), [("primal", (3 if DEVICE == "cuda" else 4, 5)), ("dual", (6, 7))], ids=["primal", "dual"]
)
@pytest.mark.usefixtures("launch")
def test_few_launches_and_little_is_kept(form: str, launches: tuple[int, int], launched: list[Any]) -> None:
    b, n, c = (2, 256, 512) if DEVICE == "cuda" else (1, 32, 48)  # whole tiles, several of them
    x = randn(b, n, c)
    z, *saved = isqrt.forward(x, None, form, 3, True, "tf32")
    forward = len(launched)
    isqrt.backward(x, None, *saved, z, form, 3, True, "tf32")
    assert (forward, len(launched) - forward) == launches  # the design allows at most 4 and 6 in the primal form
    assert sum(tensor.nbytes for tensor in saved) <= 2 * b * c * c * 4


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_with_and_without_cuda_graphs(mode: str) -> None:
    x, g = randn(8, 196, 256).requires_grad_(), randn(8, isqrt.triangle(256), seed=1)
    expected = ops.isqrt_covariance(x, vectorize=True)
    (slope,) = torch.autograd.grad(expected, x, g)
    compiled = torch.compile(lambda x: ops.isqrt_covariance(x, vectorize=True), fullgraph=True, mode=mode)
    for _ in range(4):  # warm-up, capture, replays
        torch.compiler.cudagraph_mark_step_begin()
        z = compiled(x)
        (dx,) = torch.autograd.grad(z, x, g)
        assert torch.equal(z, expected) and torch.equal(dx, slope)
