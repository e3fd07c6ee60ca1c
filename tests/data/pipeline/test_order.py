"""The order of images in an epoch."""

import pytest
import torch

from covpool.data.pipeline import _order as order
from covpool.data.pipeline._order import Share

EPOCH = {"seed": 3, "epoch": 2}


@pytest.mark.parametrize(("count", "batch_size", "world_size"), [(24, 2, 3), (25, 4, 2), (7, 7, 1), (9, 2, 4)])
def test_processes_together_see_what_one_with_the_whole_batch_sees(
    count: int, batch_size: int, world_size: int
) -> None:
    whole = order.train_order(count, batch_size * world_size, Share(), **EPOCH)
    shares = [order.train_order(count, batch_size, Share(world_size, rank), **EPOCH) for rank in range(world_size)]
    assert whole.shape == (count // (batch_size * world_size), batch_size * world_size)
    for step, row in enumerate(whole):
        assert torch.equal(torch.cat([share[step] for share in shares]).sort().values, row.sort().values)
        for rank, share in enumerate(shares):
            assert torch.equal(share[step], row[rank::world_size])
    assert len(whole.unique()) == whole.numel()  # no image appears twice in an epoch


def test_the_order_depends_on_epoch_and_seed() -> None:
    def of(seed: int, epoch: int) -> torch.Tensor:
        return order.train_order(100, 100, Share(), seed=seed, epoch=epoch)

    assert torch.equal(of(0, 1), of(0, 1))
    assert (
        not torch.equal(of(0, 1), of(0, 2))
        and not torch.equal(of(0, 1), of(1, 1))
        and not torch.equal(of(0, 1), of(1, 0))
    )


@pytest.mark.parametrize("count", [1, 5, 8, 9])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_evaluation_shows_every_image_once_and_all_processes_have_equal_batches(count: int, world_size: int) -> None:
    shares = [order.eval_order(count, 2, Share(world_size, rank)) for rank in range(world_size)]
    shapes = {tuple(len(batch) for batch in share) for share in shares}
    assert len(shapes) == 1
    seen = torch.cat([batch for share in shares for batch in share])
    assert seen[seen >= 0].sort().values.tolist() == list(range(count))
    assert int((seen < 0).sum()) < world_size
    assert torch.cat(order.eval_order(count, 2, Share())).tolist() == list(range(count))
