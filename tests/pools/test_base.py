import pytest
import torch
from torch import Tensor, nn

import covpool
from cases import features
from covpool import Pool, create_pool


class Seen(Pool):
    """Record what the base passes to the method."""

    def _pool(self, *x: Tensor, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        self.x, self.mask, self.weights = x, mask, weights
        return torch.cat([f.mean(1) for f in x], -1)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_maps_become_rows_of_positions_without_a_copy(memory_format: torch.memory_format) -> None:
    x = torch.randn(2, 5, 3, 4).contiguous(memory_format=memory_format)
    pool = Seen(5)
    pool(x)
    torch.testing.assert_close(pool.x[0], x.flatten(2).mT, rtol=0, atol=0)
    assert pool.x[0].data_ptr() == x.data_ptr()


def test_tokens_are_taken_as_they_are() -> None:
    x, pool = torch.randn(2, 7, 5), Seen(5)
    pool(x)
    assert pool.x[0] is x


def test_maps_with_channels_last_become_rows_of_positions_without_a_copy() -> None:
    x, pool = torch.randn(2, 3, 4, 5), Seen(5, layout="channels_last")
    pool(x)
    assert pool.x[0].shape == (2, 12, 5) and pool.x[0].data_ptr() == x.data_ptr()


def test_the_method_sees_flat_positions_and_at_least_float32() -> None:
    pool, weights = Seen(5), torch.rand(2, 3, 4)
    with torch.autocast("cpu", torch.bfloat16):
        pool(torch.randn(2, 5, 3, 4).half(), mask=torch.ones(2, 12, dtype=torch.bool), weights=weights)
    assert pool.x[0].dtype == torch.float32
    assert pool.mask.shape == (2, 12)
    torch.testing.assert_close(pool.weights, weights.flatten(1))


def test_several_feature_tensors_each_have_their_own_reduction() -> None:
    pool = Seen((5, 9), reduce_to=3)
    z = pool(torch.randn(2, 5, 4, 4), torch.randn(2, 9, 4, 4))
    assert z.shape == (2, pool.out_features) == (2, 6)
    assert [r.convolutions[0].in_channels for r in pool.reduce] == [5, 9]


def test_the_number_of_feature_tensors_is_checked() -> None:
    with pytest.raises(ValueError, match=r"Seen takes 2 feature tensor\(s\); got 1"):
        Seen((5, 9))(torch.randn(2, 5, 4, 4))
    with pytest.raises(ValueError, match=r"tokens \(b, n, 9\); got \(2, 8, 4, 4\)"):
        Seen((5, 9))(torch.randn(2, 5, 4, 4), torch.randn(2, 8, 4, 4))
    with pytest.raises(ValueError, match=r"does not take 2 feature tensor\(s\), in_features=\(5, 9\)"):
        create_pool("cov", (5, 9))


def test_several_maps_are_resized_to_the_first() -> None:
    x, y = torch.randn(2, 5, 4, 6), torch.randn(2, 9, 2, 3)
    pool = Seen((5, 9))
    pool(x, y)
    large = nn.functional.interpolate(y, (4, 6), mode="bilinear")
    torch.testing.assert_close(pool.x[1], large.flatten(2).mT, rtol=0, atol=0)
    assert pool.x[0].data_ptr() == x.data_ptr()
    last = Seen((5, 9), layout="channels_last")
    last(x.movedim(1, -1), y.movedim(1, -1))
    torch.testing.assert_close(last.x[1], pool.x[1])


def test_a_mask_of_the_first_map_applies_to_all_reductions() -> None:
    pool, x, y = Seen((5, 9), reduce_to=3), torch.randn(2, 5, 4, 6), torch.randn(2, 9, 2, 3)
    mask = torch.ones(2, 4, 6, dtype=torch.bool)
    mask[..., 4:] = False
    pool(x.masked_fill(~mask.unsqueeze(1), torch.nan), y, mask=mask)
    assert pool.mask.shape == (2, 24) and pool.x[0].isfinite().all()
    large = nn.functional.interpolate(y, (4, 6), mode="bilinear")[..., :4]
    reduced = pool.reduce[1].convolutions[0](large)
    torch.testing.assert_close(pool.reduce[1].norms[0].running_mean, 0.1 * reduced.mean((0, 2, 3)))


class SeenOnOwnGrids(Seen):
    own_positions = True


def test_maps_on_their_own_grids_get_separate_masks_and_weights() -> None:
    pool, x, y = SeenOnOwnGrids((5, 9), reduce_to=3), torch.randn(2, 5, 4, 6), torch.randn(2, 9, 2, 3)
    mask, weights = torch.zeros(2, 4, 6, dtype=torch.bool), torch.ones(2, 4, 6)
    mask[..., :2], weights[..., 2:] = True, 5
    pool(x, y, mask=mask, weights=weights)
    assert [f.shape for f in pool.x] == [(2, 24, 3), (2, 6, 3)]
    assert torch.equal(pool.mask[0], mask.flatten(1)) and torch.equal(pool.weights[0], weights.flatten(1))
    assert pool.mask[1].tolist() == [[True, False, False] * 2] * 2
    assert pool.weights[1].tolist() == [[1, 5, 5] * 2] * 2
    pool(x, y)
    assert pool.mask is None and pool.weights is None


def test_different_numbers_of_tokens_cannot_share_a_mask() -> None:
    x, y = torch.randn(2, 12, 5), torch.randn(2, 7, 9)
    pool = SeenOnOwnGrids((5, 9))
    pool(x, y)
    assert [f.shape[1] for f in pool.x] == [12, 7]
    with pytest.raises(ValueError, match="same positions; got 7 and 12"):
        pool(x, y, mask=torch.ones(2, 12, dtype=torch.bool))
    with pytest.raises(ValueError, match="same positions; got 12 and 7"):
        Seen((5, 9))(x, y)
    Seen((5, 9))(x.mT.unflatten(-1, (3, 4)), torch.randn(2, 12, 9))  # as many tokens as the map has positions


def test_one_group_is_a_linear_layer() -> None:
    pool, x = create_pool("cov", 7, project_to=10).double(), features(3, 20, 7)
    linear = nn.Linear(28, 10).double()
    linear.load_state_dict({key: value.squeeze(-1) for key, value in pool.project.state_dict().items()})
    torch.testing.assert_close(pool(x), linear(create_pool("cov", 7)(x)))


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_are_a_block_diagonal_linear_layer(groups: int) -> None:
    pool, x = create_pool("cov", 7, project_to=12, groups=groups).double(), features(3, 20, 7)
    block = torch.block_diag(*pool.project.weight.squeeze(-1).chunk(groups))  # (12, 28)
    assert block.shape == (12, 28)
    torch.testing.assert_close(pool(x), create_pool("cov", 7)(x) @ block.T + pool.project.bias)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_parameters_of_the_compact_pool_of_the_paper(groups: int) -> None:
    with torch.device("meta"):
        pool = create_pool("isqrt", 128, project_to=2048, groups=groups)
    assert sum(p.numel() for p in pool.parameters()) == 8256 * 2048 // groups + 2048


def test_normalization_comes_before_projection() -> None:
    pool, x = create_pool("cov", 4, normalize="l2", project_to=3).double(), features(3, 20, 4)
    z = nn.functional.normalize(create_pool("cov", 4)(x))
    torch.testing.assert_close(pool(x), pool.project(z.unsqueeze(-1)).squeeze(-1))


@pytest.mark.parametrize("training", [False, True])
def test_a_masked_reduction_compiles_without_a_graph_break(training: bool) -> None:
    torch._dynamo.reset()
    x, mask = torch.randn(3, 8, 4, 4), torch.rand(3, 4, 4) < 0.7
    pool = create_pool("isqrt", 8, reduce_to=4, normalize="bn", project_to=6).train(training)
    compiled = torch.compile(pool, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, mask=mask), pool(x, mask=mask))


def test_repr_names_input_and_output_sizes() -> None:
    assert "in_features=8, out_features=36, layout='tokens'" in repr(create_pool("cov", 8, layout="tokens"))


@pytest.mark.parametrize(
    ("option", "error", "message"),
    [
        ({"layout": "channel_first"}, ValueError, "`layout` must be one of.*did you mean 'channels_first'"),
        ({"groups": 2}, ValueError, "`groups` = 2 needs `project_to`"),
        ({"project_to": 9, "groups": 2}, ValueError, "`groups` = 2 must divide the pooled length 10 and"),
        ({"project_to": 0}, ValueError, "`project_to` must be a positive integer; got 0"),
        ({"project_to": 4, "groups": 0}, ValueError, "`groups` must be a positive integer; got 0"),
    ],
)
def test_wrong_options_are_refused(option: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        create_pool("cov", 4, **option)


@pytest.mark.parametrize(("in_features", "error"), [(0, ValueError), (2.0, TypeError), ((4, True), TypeError)])
def test_in_features_must_be_positive_integers(in_features: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="`in_features` must be a positive integer"):
        Seen(in_features)


@pytest.mark.parametrize(
    ("layout", "shape"),
    [("tokens", (2, 4, 4, 5)), ("channels_first", (2, 4, 5)), ("channels_last", (2, 5, 4, 4)), ("auto", (5,))],
)
def test_a_layout_refuses_other_shapes(layout: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"AveragePool expects .*; got"):
        covpool.pools.AveragePool(5, layout=layout)(torch.zeros(shape))


def test_integer_tensors_and_lists_are_refused() -> None:
    pool = create_pool("avg", 5)
    with pytest.raises(TypeError, match=r"`features` must be floating point; got torch.int64.*\.float\(\)"):
        pool(torch.zeros(2, 5, 4, 4, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"`features` must be a torch.Tensor; got list"):
        pool([[0.0]])


def test_a_mask_that_is_not_a_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match=r"`mask` must be a torch.Tensor; got list"):
        create_pool("avg", 5)(torch.zeros(1, 5, 2, 1), mask=[[True, False]])


class Simple(Pool):
    """The largest difference from the mean, without any code for masks, weights and empty batches."""

    calls = 0

    def _pool(self, *x: Tensor) -> Tensor:
        self.calls += 1
        assert all(f.shape[0] and f.shape[1] for f in x)
        return torch.cat([(f - f.mean(1, keepdim=True)).abs().amax(1) for f in x], -1)


class SimpleOnOwnGrids(Simple):
    own_positions = True


def test_the_signature_of_a_method_declares_what_it_handles() -> None:
    assert not Simple.handles_mask and not Simple.handles_weights
    assert Seen.handles_mask and Seen.handles_weights
    with pytest.raises(ValueError, match=r"Odd\._pool must take `mask` beside `weights`"):

        class Odd(Pool):
            def _pool(self, x: Tensor, *, weights: Tensor | None) -> Tensor:
                return x.mean(1)


def test_the_base_gathers_kept_positions_and_calls_once_per_distinct_count() -> None:
    x, pool = features(6, 5, 3).requires_grad_(), Simple(3)
    counts = torch.tensor([5, 2, 0, 2, 5, 1])
    mask = torch.arange(5) >= 5 - counts.unsqueeze(1)
    z = pool(x.masked_fill(~mask.unsqueeze(-1), torch.nan), mask=mask)
    assert pool.calls == 3
    for found, item, keep in zip(z, x, mask, strict=True):
        expected = pool(item[keep].unsqueeze(0))[0] if keep.any() else torch.zeros(3, dtype=x.dtype)
        torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(z.sum(), x)
    assert gradient.isfinite().all() and (gradient[~mask] == 0).all()


def test_the_base_gathers_positions_of_several_grids() -> None:
    x, y, pool = torch.randn(2, 3, 4, 6), torch.randn(2, 2, 2, 3), SimpleOnOwnGrids((3, 2))
    mask = torch.zeros(2, 4, 6, dtype=torch.bool)
    mask[0, ..., :2], mask[1, ..., 2:] = True, True
    z = pool(x, y, mask=mask)
    first = pool(x[:1, ..., :2], y[:1, ..., :1])
    second = pool(x[1:, ..., 2:], y[1:, ..., 1:])
    torch.testing.assert_close(z, torch.cat((first, second)))


@pytest.mark.parametrize("mask", [None, torch.ones(0, 5, dtype=torch.bool)])
def test_the_base_deals_with_empty_batches(mask: Tensor | None) -> None:
    x, pool = torch.zeros(0, 5, 3, requires_grad=True), Simple(3, project_to=2)
    z = pool(x, mask=mask)
    assert z.shape == (0, 2) and pool.calls == 0
    assert torch.autograd.grad(z.sum(), x)[0].shape == x.shape


def test_masks_that_keep_nothing_give_zeros_with_zero_gradients() -> None:
    x, pool = torch.full((2, 5, 3), torch.nan, requires_grad=True), Simple(3)
    z = pool(x, mask=torch.zeros(2, 5, dtype=torch.bool))
    assert (z == 0).all() and pool.calls == 0
    assert (torch.autograd.grad(z.sum(), x)[0] == 0).all()


def test_the_base_refuses_weights_that_a_method_does_not_take() -> None:
    with pytest.raises(ValueError, match="Simple does not support `weights`: leave them out, or use `mask`"):
        Simple(3)(torch.zeros(2, 5, 3), weights=torch.ones(2, 5))


def test_a_method_may_take_masks_without_weights() -> None:
    class Masked(Simple):
        def _pool(self, x: Tensor, *, mask: Tensor | None) -> Tensor:
            assert mask is not None
            return (x * mask.unsqueeze(-1)).sum(1)

    pool, mask = Masked(3), torch.tensor([[True, False]])
    assert pool.handles_mask and not pool.handles_weights
    assert pool(torch.ones(1, 2, 3), mask=mask).tolist() == [[1.0, 1.0, 1.0]]


def test_the_base_has_no_method_of_its_own() -> None:
    with pytest.raises(NotImplementedError):
        Pool(4)(torch.zeros(1, 4, 2, 2))
