"""covpool.kernels.workspace: blocks that are needed at the same time do not overlap."""

import random

import torch

from covpool.kernels.workspace import ALIGNMENT, Block, Workspace, arrange


def test_blocks_that_are_needed_at_the_same_time_do_not_overlap() -> None:
    numbers = random.Random(0)
    for _ in range(200):
        blocks = []
        for _ in range(numbers.randint(1, 8)):
            first = numbers.randint(0, 5)
            blocks.append(Block(first, first + numbers.randint(0, 3), numbers.randint(1, 2000)))
        offsets = arrange(blocks)
        assert all(offset % ALIGNMENT == 0 for offset in offsets)
        for i, one in enumerate(blocks):
            for j, other in enumerate(blocks[:i]):
                together = one.first <= other.last and other.first <= one.last
                apart = offsets[i] >= offsets[j] + other.size or offsets[j] >= offsets[i] + one.size
                assert apart or not together


def test_tensors_share_memory_after_their_last_launch_and_known_ones_have_none() -> None:
    x, a, b, c = (torch.zeros(100) for _ in range(4))
    workspace = Workspace([(x, a, 1.0), (a, b), (b, c[10:], torch.zeros(0))], (x, None))
    assert workspace.offset(a) == workspace.offset(c) != workspace.offset(b)
    assert workspace.offset(c[10:]) == workspace.offset(c) + 40
    assert workspace.bytes == 1024  # two blocks of 400 bytes, aligned
