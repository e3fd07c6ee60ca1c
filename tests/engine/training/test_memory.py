from pathlib import Path

import pytest
import torch

from covpool.engine.training._loop import train
from covpool.engine.training._memory import advice, largest_that_fits
from covpool.models._network import Network
from tiny import make_tree, tiny_recipe


@pytest.mark.parametrize("failed", [1, 201, 256, 4096])
@pytest.mark.parametrize("capacity", [0, 1, 2, 5, 37, 63, 200])
def test_the_largest_batch_is_found_in_few_trials(capacity: int, failed: int) -> None:
    capacity = min(capacity, failed - 1)
    tried = []

    def fits(images: int) -> bool:
        tried.append(images)
        return images <= capacity

    found = largest_that_fits(fits, failed)
    assert found <= capacity and capacity - found <= max(1, found // 16)
    assert len(tried) <= failed.bit_length() and all(0 < images < failed for images in tried)


def test_advice_can_be_followed() -> None:
    assert advice(256, processes=4, accumulate=1, fitting=20) == (
        "train.batch_size=80 would fit, or train.accumulate=4 with train.batch_size=256"
    )
    assert "not even one image fits" in advice(8, processes=1, accumulate=1, fitting=0)


def test_out_of_memory_names_a_batch_that_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The network accepts at most five images."""
    forward = Network.forward

    def limited(self: Network, x: torch.Tensor) -> torch.Tensor:
        if len(x) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, x)

    monkeypatch.setattr(Network, "forward", limited)
    recipe = tiny_recipe(make_tree(tmp_path / "tree"))
    with pytest.raises(RuntimeError, match=r"12 images per micro-batch on cpu: train.batch_size=5 would"):
        train(recipe, tmp_path / "run")
