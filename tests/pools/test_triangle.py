import torch

from covpool.ops import vech
from covpool.pools.triangle import triangle


def test_is_the_length_of_vech() -> None:
    for order in (1, 2, 3, 64, 130):
        assert triangle(order) == vech(torch.zeros(order, order)).numel()
