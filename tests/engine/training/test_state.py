from pathlib import Path

import pytest
import torch

import covpool
from covpool.engine.training._optimizer import make_optimizer
from covpool.engine.training._state import TrainingPosition, TrainingState, collect, load_state, restore, save_state
from covpool.recipe._schema import Optimizer


def setting(seed: int, name: str) -> tuple[covpool.Network, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    network = covpool.attach("test_resnet", "isqrt", 4, reduce_to=8)
    return network, make_optimizer(network, Optimizer(name=name, lr=0.01, head_factor=5, decay_norms=False))


def step(network: covpool.Network, optimizer: torch.optim.Optimizer, seed: int) -> None:
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    torch.nn.functional.cross_entropy(network(x), torch.arange(4)).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)  # as a training does before it saves


@pytest.mark.parametrize("name", ["sgd", "adamw", "lamb", "madgrad", "adafactorbv", "cadafactorbv"])
def test_the_next_step_after_a_restore_is_the_same(tmp_path: Path, name: str) -> None:
    network, optimizer = setting(0, name)
    step(network, optimizer, 0)
    save_state(
        tmp_path / "state.pt", TrainingState(TrainingPosition(step=1), collect(network, optimizer, ema=None, scaler={}))
    )
    other, others = setting(1, name)
    saved = load_state(tmp_path / "state.pt")
    restore(saved.tensors, other, others, ema=None)
    assert saved.position == TrainingPosition(step=1)
    step(network, optimizer, 2)
    step(other, others, 2)
    for key, value in network.state_dict().items():
        assert torch.equal(other.state_dict()[key], value), key


def test_optimizer_without_state(tmp_path: Path) -> None:
    network, settings = setting(0, "sgd")[0], Optimizer(momentum=0.0)
    optimizer = make_optimizer(network, settings)
    step(network, optimizer, 0)
    save_state(
        tmp_path / "state.pt", TrainingState(TrainingPosition(), collect(network, optimizer, ema=None, scaler={}))
    )
    other = setting(1, "sgd")[0]
    restore(load_state(tmp_path / "state.pt").tensors, other, make_optimizer(other, settings), ema=None)
    assert all(map(torch.equal, network.parameters(), other.parameters()))


@pytest.mark.parametrize("name", ["sgd", "adamw", "lamb"])
def test_an_optimizer_before_its_first_step_stays_as_it_is(name: str) -> None:
    """The first steps in half precision may be left out, because their gradients overflow."""
    network, optimizer = setting(0, name)
    tensors = collect(network, optimizer, ema=None, scaler={})
    assert not tensors["optimizer"]["state"] and not optimizer.state
    assert all(parameter.grad is None for parameter in network.parameters())
    other, others = setting(1, name)
    restore(tensors, other, others, ema=None)
    for each, its in ((network, optimizer), (other, others)):
        step(each, its, 2)
    assert all(map(torch.equal, network.parameters(), other.parameters()))


def test_the_order_of_saved_groups_does_not_matter() -> None:
    """A strategy that spreads the weights over processes may save them in another order."""
    network, optimizer = setting(0, "adamw")
    step(network, optimizer, 0)
    tensors = collect(network, optimizer, ema=None, scaler={})
    tensors["optimizer"]["param_groups"].reverse()
    other, others = setting(1, "adamw")
    restore(tensors, other, others, ema=None)
    for key in ("name", "lr", "weight_decay"):
        assert [group[key] for group in others.param_groups] == [group[key] for group in optimizer.param_groups]
    assert len({group["lr"] for group in others.param_groups}) > 1, "the groups can be told apart"
    for mine, its in zip(network.parameters(), other.parameters(), strict=True):
        assert torch.equal(optimizer.state[mine]["exp_avg"], others.state[its]["exp_avg"])


@pytest.mark.parametrize("part", ["model", "optimizer"])
def test_a_state_without_weights_is_not_taken_for_one(part: str) -> None:
    """torch takes an empty state dict for nothing to do, and the run would go on with fresh weights."""
    network, optimizer = setting(0, "sgd")
    step(network, optimizer, 0)
    tensors = collect(network, optimizer, ema=None, scaler={})
    with pytest.raises(covpool.CovpoolError, match="has no weights or no optimizer"):
        restore({**tensors, part: {}}, network, optimizer, ema=None)


@pytest.mark.parametrize(("change", "said"), [(None, "missing"), (torch.ones(3, 3, 3), "of another shape")])
def test_weights_that_do_not_fit_are_refused(change: torch.Tensor | None, said: str) -> None:
    """torch leaves a weight that the state does not hold as it is."""
    network, optimizer = setting(0, "sgd")
    step(network, optimizer, 0)
    tensors = collect(network, optimizer, ema=None, scaler={})
    model = {**tensors["model"], "classifier.weight": change}
    kept = {name: tensor for name, tensor in model.items() if tensor is not None}
    with pytest.raises(covpool.CovpoolError, match=f"do not fit the network \\({said} classifier.weight\\)"):
        restore({**tensors, "model": kept}, network, optimizer, ema=None)


def test_states_without_network_and_data_are_read(tmp_path: Path) -> None:
    """The first states did not record the network and the data."""
    torch.save({"format": 1, "progress": vars(TrainingPosition(epoch=2)), "model": {}}, tmp_path / "state.pt")
    assert load_state(tmp_path / "state.pt") == TrainingState(TrainingPosition(epoch=2), {"model": {}})


def test_a_flipped_bit_is_refused_or_harmless(tmp_path: Path) -> None:
    """One bit after another, all over the file: no state is read that differs from the one saved."""
    path, weight = tmp_path / "state.pt", torch.arange(6.0)
    state = TrainingState(TrainingPosition(epoch=2, seconds=1.5), {"model": {"w": weight}}, None, {"a": 1}, {"seed": 3})
    save_state(path, state)
    whole, refused = path.read_bytes(), 0
    for place in range(0, 8 * len(whole), 37):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            found = load_state(path)
        except ValueError:
            refused += 1
            continue
        assert torch.equal(found.tensors.pop("model")["w"], weight)
        assert (found.position, found.tensors, found.data, found.recipe) == (state.position, {}, {"a": 1}, {"seed": 3})
    assert refused > 100


def test_broken_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing to resume"):
        load_state(tmp_path / "state.pt")
    (tmp_path / "state.pt").write_bytes(b"half of it")
    with pytest.raises(ValueError, match=r"state.pt is damaged"):
        load_state(tmp_path / "state.pt")
    for part in (
        {},
        {"progress": [1]},
        {"progress": {"x": 1}},
        {"progress": {"step": "x"}},
        {"progress": {}, "network": [1]},
    ):
        torch.save({"format": 1, **part}, tmp_path / "state.pt")
        with pytest.raises(ValueError, match=r"state.pt is damaged"):
            load_state(tmp_path / "state.pt")
    torch.save({"format": 99}, tmp_path / "state.pt")
    with pytest.raises(ValueError, match="has format 99"):
        load_state(tmp_path / "state.pt")
