from pathlib import Path

import pytest
import torch

import covpool
from covpool.train.optimizer import make_optimizer
from covpool.train.recipe import Optimizer
from covpool.train.state import Progress, collect, load_state, restore, save_state


def setting(seed: int, name: str) -> tuple[covpool.Network, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    network = covpool.attach("test_resnet", "isqrt", 4, reduce_to=8)
    return network, make_optimizer(network, Optimizer(name=name, lr=0.01, head_factor=5, decay_norms=False))


def step(network: covpool.Network, optimizer: torch.optim.Optimizer, seed: int) -> None:
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    optimizer.zero_grad(set_to_none=True)
    torch.nn.functional.cross_entropy(network(x), torch.arange(4)).backward()
    optimizer.step()


@pytest.mark.parametrize("name", ["sgd", "adamw", "lamb"])
def test_the_next_step_is_the_same(tmp_path: Path, name: str) -> None:
    network, optimizer = setting(0, name)
    step(network, optimizer, 0)
    save_state(tmp_path / "state.pt", Progress(step=1), collect(network, optimizer, ema=None, scaler={}))
    other, others = setting(1, name)
    progress, tensors = load_state(tmp_path / "state.pt")
    restore(tensors, other, others, ema=None)
    assert progress == Progress(step=1)
    step(network, optimizer, 2)
    step(other, others, 2)
    for key, value in network.state_dict().items():
        assert torch.equal(other.state_dict()[key], value), key


def test_broken_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing to resume"):
        load_state(tmp_path / "state.pt")
    (tmp_path / "state.pt").write_bytes(b"half of it")
    with pytest.raises(ValueError, match=r"state.pt is damaged"):
        load_state(tmp_path / "state.pt")
    torch.save({"format": 99}, tmp_path / "state.pt")
    with pytest.raises(ValueError, match="has format 99"):
        load_state(tmp_path / "state.pt")
