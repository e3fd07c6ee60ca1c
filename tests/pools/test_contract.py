"""The contract of all pools. Every registered pool is tested here without further edits."""

import copy
import pickle
import re

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import covpool
from cases import features, hard_features

CHANNELS = 16
HARD = tuple(hard_features())
# Inductor is slow, so it compiles one pool of each kind: a mean, an iteration of products, an eigen-decomposition.
FAMILIES = ("avg", "isqrt", "mpn")

pytestmark = pytest.mark.parametrize("name", covpool.list_pools())


def make(name: str, *, seed: int = 0, **options: object) -> covpool.Pool:
    """Make a float64 pool in eval mode, with parameters and batch norm statistics moved off their initial values."""
    torch.manual_seed(seed)
    pool = covpool.create_pool(name, CHANNELS, **options)
    for key, value in pool.state_dict().items():
        if value.is_floating_point():
            value += 0.1 * torch.rand_like(value) + (0.1 if "running" in key else 0)
    return pool.double().eval()


def maps(b: int = 3, h: int = 6, w: int = 5, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Return feature maps (b, c, h, w) after a ReLU."""
    return features(b, h * w, CHANNELS, dtype=dtype, seed=seed).relu().mT.unflatten(-1, (h, w)).contiguous()


def kept() -> Tensor:
    """Return a mask (3, 6, 5) that keeps a different number of positions of each map."""
    mask = torch.rand(3, 6, 5, generator=torch.Generator().manual_seed(1)) < 0.7
    mask[1, :3] = False
    assert len(set(mask.sum((1, 2)).tolist())) == 3
    return mask


def tokens(x: Tensor) -> Tensor:
    """Return maps (b, c, h, w) as tokens (b, h w, c)."""
    return x.flatten(2).mT


def gradients(pool: covpool.Pool, x: Tensor, **positions: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return the output for x, and the gradients of x and all parameters in a fixed direction."""
    x = x.detach().requires_grad_()
    z = pool(x, **positions)
    direction = torch.linspace(-1, 1, z.numel(), dtype=z.dtype).reshape(z.shape) / max(z.numel(), 1)
    return z.detach(), list(torch.autograd.grad((z * direction).sum(), (x, *parameters(pool)), materialize_grads=True))


def parameters(pool: covpool.Pool) -> list[Tensor]:
    return [p for p in pool.parameters() if p.requires_grad]


def assert_all_close(actual: list[Tensor], expected: list[Tensor], **tolerance: float) -> None:
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, **tolerance)


@pytest.mark.parametrize("options", [{}, {"reduce_to": 8, "normalize": ("epn", "bn"), "project_to": 6, "groups": 1}])
def test_out_features_is_known_before_the_first_forward(name: str, options: dict[str, object]) -> None:
    pool = make(name, **options)
    promised = pool.out_features
    z = pool(maps())
    assert z.shape == (3, promised) and z.dtype == torch.float64 and z.isfinite().all()
    assert promised == options.get("project_to", promised)


@pytest.mark.parametrize("options", [{}, {"reduce_to": 4, "normalize": ("epn", "bn")}, {"normalize": "l2"}])
@pytest.mark.parametrize("case", HARD)
def test_hard_cases_are_finite_with_finite_gradients(name: str, case: str, options: dict[str, object]) -> None:
    pool = covpool.create_pool(name, CHANNELS, **options)
    z, grads = gradients(pool, hard_features(CHANNELS)[case])
    assert z.dtype == torch.float32 and z.shape == (2, pool.out_features)
    assert z.isfinite().all(), z
    assert all(g.isfinite().all() for g in grads)


@pytest.mark.parametrize("reduce_to", [None, 4])
def test_largest_half_precision_features_are_finite(name: str, reduce_to: int | None) -> None:
    x = hard_features(CHANNELS)["largest_half"].half()
    assert x.max() > 5.9e4 and x.isfinite().all()
    z, grads = gradients(covpool.create_pool(name, CHANNELS, reduce_to=reduce_to), x)
    assert z.dtype == torch.float32 and z.isfinite().all()
    assert all(g.isfinite().all() for g in grads)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_nan_and_inf_stay_visible_in_their_own_image(name: str, poison: float) -> None:
    pool, x = make(name), maps()
    x[1, 3, 2, 2] = poison
    z = pool(x)
    assert not z[1].isfinite().all()
    torch.testing.assert_close(z[::2], pool(x[::2]))


def test_order_of_positions_does_not_matter(name: str) -> None:
    pool, x = make(name, reduce_to=8), tokens(maps())
    order = torch.randperm(x.shape[1], generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(pool(x[:, order]), pool(x), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (3, 2), (14, 11)])
def test_any_map_size(name: str, size: tuple[int, int]) -> None:
    pool = make(name)
    z = pool(maps(2, *size))
    assert z.shape == (2, pool.out_features) and z.isfinite().all()


def test_images_of_a_batch_are_independent(name: str) -> None:
    pool, x = make(name, reduce_to=8), maps()
    alone = torch.cat([pool(item.unsqueeze(0)) for item in x])
    torch.testing.assert_close(pool(x), alone, rtol=1e-9, atol=1e-11)


def test_state_dict_round_trip(name: str) -> None:
    options = {"reduce_to": (12, 8), "normalize": "bn", "project_to": 6}
    pool, other = make(name, **options), make(name, seed=1, **options)
    other.load_state_dict(pool.state_dict())
    torch.testing.assert_close(other(maps()), pool(maps()), rtol=0, atol=0)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda pool: pickle.loads(pickle.dumps(pool))])
def test_deepcopy_and_pickle(name: str, clone: object) -> None:
    pool = make(name, reduce_to=8, normalize="bn", project_to=6)
    z = pool(maps())
    other = clone(pool)
    torch.testing.assert_close(other(maps()), z, rtol=0, atol=0)
    assert repr(other) == repr(pool)


@pytest.mark.parametrize("masked", [False, True])
def test_empty_batch(name: str, masked: bool) -> None:
    pool = make(name)
    positions = {"mask": torch.ones(0, 6, 5, dtype=torch.bool)} if masked else {}
    z, grads = gradients(pool, maps(0), **positions)
    assert z.shape == (0, pool.out_features)
    assert grads[0].shape == (0, CHANNELS, 6, 5)
    assert all(g.isfinite().all() for g in grads)


def test_float64_is_kept_and_float32_agrees(name: str) -> None:
    exact, x = make(name), maps()
    z64 = exact(x)
    z32 = copy.deepcopy(exact).float()(x.float())
    assert z64.dtype == torch.float64 and z32.dtype == torch.float32
    torch.testing.assert_close(z32.double(), z64, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_features_give_float32(name: str, dtype: torch.dtype) -> None:
    pool, x = make(name).float(), maps().to(dtype)
    z, grads = gradients(pool, x)
    assert z.dtype == torch.float32 and grads[0].dtype == dtype
    torch.testing.assert_close(z, pool(x.float()), rtol=0, atol=0)


def test_bf16_autocast_does_not_reach_the_mathematics(name: str) -> None:
    pool, x = make(name).float(), maps().float()
    with torch.autocast("cpu", torch.bfloat16):
        z, grads = gradients(pool, x)
    expected, expected_grads = gradients(pool, x)
    assert z.dtype == torch.float32
    torch.testing.assert_close(z, expected, rtol=0, atol=0)
    assert_all_close(grads, expected_grads, rtol=0, atol=0)


def test_bf16_autocast_with_a_reduction_gives_float32(name: str) -> None:
    pool, x = make(name, reduce_to=8, project_to=6).float(), maps().float()
    for training in (False, True):
        pool.train(training)
        with torch.autocast("cpu", torch.bfloat16):
            z, grads = gradients(pool, x, mask=kept())
        assert z.dtype == torch.float32 and z.isfinite().all()
        assert all(g.isfinite().all() for g in grads)


@pytest.mark.parametrize("shape", [(2, 17, 4, 4), (2, 4, 17), (2, 16), (2, 1, 16, 4, 4), (2, 16, 0, 4)])
def test_a_wrong_shape_is_refused_with_both_shapes_named(name: str, shape: tuple[int, ...]) -> None:
    expected = "at least one position" if 0 in shape else r"\(b, 16, h, w\).*\(b, n, 16\)"
    with pytest.raises(ValueError, match=f"{expected}.*{re.escape(str(shape))}"):
        covpool.create_pool(name, CHANNELS)(torch.zeros(shape))


@pytest.mark.parametrize("reduce_to", [None, 8])
def test_a_mask_equals_slicing_even_if_masked_positions_are_nan(name: str, reduce_to: int | None) -> None:
    pool, x, mask = make(name, reduce_to=reduce_to), maps(), kept()
    z, grads = gradients(pool, x.masked_fill(~mask.unsqueeze(1), torch.nan), mask=mask)
    sliced = torch.cat([pool(item[keep].unsqueeze(0)) for item, keep in zip(tokens(x), mask.flatten(1), strict=True)])
    torch.testing.assert_close(z, sliced, rtol=1e-9, atol=1e-11)
    assert all(g.isfinite().all() for g in grads)
    assert (grads[0].movedim(1, -1)[~mask] == 0).all()


def test_a_mask_of_tokens_equals_the_mask_of_the_map(name: str) -> None:
    pool, x, mask = make(name), maps(), kept()
    z = pool(x, mask=mask)
    for other in (pool(x, mask=mask.flatten(1)), pool(tokens(x), mask=mask.flatten(1))):
        torch.testing.assert_close(other, z, rtol=1e-9, atol=1e-11)


def test_a_mask_that_keeps_all_changes_nothing(name: str) -> None:
    pool, x = make(name), maps()
    torch.testing.assert_close(pool(x, mask=torch.ones_like(kept())), pool(x), rtol=1e-9, atol=1e-11)


def test_the_representation_is_the_output_unless_that_is_scores(name: str) -> None:
    pool, x = make(name).eval(), maps()
    z = pool.representation(x, mask=kept())
    assert torch.equal(z, pool(x, mask=kept())) == (pool.output == "features") and len(z) == len(x)


def test_an_empty_mask_gives_zeros(name: str) -> None:
    pool, x, mask = make(name), maps(), kept()
    mask[1] = False
    assert (pool.representation(x, mask=mask)[1] == 0).all()
    z, grads = gradients(pool, x, mask=mask)
    torch.testing.assert_close(z[::2], pool(x[::2], mask=mask[::2]), rtol=1e-9, atol=1e-11)
    assert all(g.isfinite().all() for g in grads)
    assert (grads[0][1] == 0).all()


def test_weights_of_zero_and_one_equal_the_mask(name: str) -> None:
    pool, x, mask = make(name), maps(), kept()
    if not pool.handles_weights:
        with pytest.raises(ValueError, match="does not support `weights`"):
            pool(x, weights=mask.double())
        return
    for scale in (1, 3):
        torch.testing.assert_close(pool(x, weights=scale * mask.double()), pool(x, mask=mask), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("wrong", [torch.ones(3, 6), torch.ones(3, 6, 5), torch.ones(3, 5, 6, dtype=torch.bool)])
def test_a_wrong_mask_is_refused(name: str, wrong: Tensor) -> None:
    message = "boolean" if wrong.shape == (3, 6, 5) else r"\(3, 6, 5\) or \(3, 30\); got \(3,"
    with pytest.raises((ValueError, TypeError), match=message):
        make(name)(maps(), mask=wrong)


@pytest.mark.parametrize("reduce_to", [None, 8])
def test_all_layouts_are_equal(name: str, reduce_to: int | None) -> None:
    x = maps()
    same = [
        ("auto", x.unflatten(2, (2, 3))),
        ("auto", tokens(x)),
        ("tokens", tokens(x)),
        ("channels_first", x),
        ("channels_first", x.flatten(2)),
        ("channels_first", x.unflatten(2, (2, 3))),
        ("channels_last", tokens(x)),
        ("channels_last", x.movedim(1, -1)),
        ("channels_last", x.unflatten(2, (2, 3)).movedim(1, -1)),
    ]
    z = make(name, reduce_to=reduce_to)(x)
    for layout, seen in same:
        pool = make(name, reduce_to=reduce_to, layout=layout)
        torch.testing.assert_close(pool(seen), z, rtol=1e-9, atol=1e-11, msg=f"{layout} {tuple(seen.shape)}")


def test_channels_last_memory_equals_contiguous(name: str) -> None:
    pool, x = make(name, reduce_to=8), maps()
    z, grads = gradients(pool, x)
    z_last, grads_last = gradients(pool, x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(z_last, z, rtol=1e-9, atol=1e-11)
    assert_all_close(grads_last, grads, rtol=1e-8, atol=1e-10)


def test_in_training_the_reduction_uses_kept_positions_only(name: str) -> None:
    pool, x, mask = make(name, reduce_to=8), maps(), kept()
    sliced = copy.deepcopy(pool)
    pool.reduce.train()
    z, grads = gradients(pool, x.masked_fill(~mask.unsqueeze(1), torch.nan), mask=mask)

    reduction = sliced.reduce.train()[0]
    positions = tokens(x)[mask.flatten(1)].requires_grad_()  # (k, c), the kept positions of all maps
    reduced = reduction(positions.T[None, :, :, None])[0, :, :, 0].T  # (k, 8)
    sliced.reduce[0] = torch.nn.Identity()
    counts = mask.sum((1, 2)).tolist()
    expected = torch.cat([on_reduced(sliced, part) for part in reduced.split(counts)])
    torch.testing.assert_close(z, expected, rtol=1e-9, atol=1e-11)
    for ours, theirs in zip(pool.reduce.buffers(), reduction.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)
    direction = torch.linspace(-1, 1, z.numel(), dtype=z.dtype).reshape(z.shape) / z.numel()
    expected_grads = torch.autograd.grad((expected * direction).sum(), (positions, *reduction.parameters()))
    torch.testing.assert_close(tokens(grads[0])[mask.flatten(1)], expected_grads[0], rtol=1e-8, atol=1e-10)
    reduction_grads = [g for (key, _), g in zip(named(pool), grads[1:], strict=True) if key.startswith("reduce")]
    assert_all_close(reduction_grads, list(expected_grads[1:]), rtol=1e-8, atol=1e-10)


def named(pool: covpool.Pool) -> list[tuple[str, Tensor]]:
    return [(key, p) for key, p in pool.named_parameters() if p.requires_grad]


def on_reduced(pool: covpool.Pool, x: Tensor) -> Tensor:
    """Apply the method to features (n, c) that are already reduced."""
    return pool._pool_kept(x.unsqueeze(0))


class _NothingIsReadBack(TorchDispatchMode):
    """Refuse operations that make the host wait for the device: .item(), a branch on a tensor, a boolean index."""

    READS = frozenset({"_local_scalar_dense", "nonzero", "masked_select", "equal"})

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
        name = operation.__name__.split(".")[0]
        by_mask = name in ("index", "index_put") and any(
            isinstance(i, Tensor) and i.dtype == torch.bool for i in arguments[1]
        )
        if name in self.READS or by_mask:
            raise AssertionError(f"{operation} waits for the device")
        return operation(*arguments, **(options or {}))


@pytest.mark.parametrize("masked", [False, True])
def test_the_host_does_not_wait_for_the_device(name: str, masked: bool) -> None:
    pool, x, mask = make(name).train(), maps(), kept()
    with _NothingIsReadBack():
        gradients(pool, x, **({"mask": mask} if masked and pool.handles_mask else {}))


def test_compiles_without_a_graph_break(name: str) -> None:
    pool, x = make(name).float(), maps().float()
    expected, expected_grads = gradients(pool, x)
    for backend in ("aot_eager", "inductor") if name in FAMILIES else ("aot_eager",):
        torch._dynamo.reset()
        z, grads = gradients(torch.compile(pool, fullgraph=True, backend=backend), x)
        torch.testing.assert_close(z, expected, rtol=1e-4, atol=1e-5)
        assert_all_close(grads, expected_grads, rtol=1e-3, atol=1e-5)
