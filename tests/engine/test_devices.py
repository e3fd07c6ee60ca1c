from pathlib import Path

import pytest
import torch

from covpool import CovpoolError
from covpool.engine._devices import leave_processes, make_fabric, reproducible
from covpool.recipe._schema import Devices


def test_precision() -> None:
    fabric = make_fabric(Devices(accelerator="cpu"), "bf16")
    with fabric.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16


@pytest.mark.parametrize("said", ["", "two", "0,x"])
def test_invalid_devices(said: str) -> None:
    with pytest.raises(ValueError, match=r"`devices.devices` must be"):
        make_fabric(Devices(devices=said), "32")


@pytest.mark.parametrize("said", ["-3", "0"])
def test_devices_that_are_not_available(said: str) -> None:
    with pytest.raises(ValueError, match=rf"`devices` must name what this machine has; .* devices '{said}'"):
        make_fabric(Devices(accelerator="cpu", devices=said), "32")


def test_nodes_that_cannot_be_found_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = Devices(accelerator="cpu", devices="1", nodes=2)
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(CovpoolError, match=r"`devices.nodes` = 2, .* start the training by torchrun on each node"):
        make_fabric(devices, "32")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert make_fabric(devices, "32").world_size == 2


def test_unknown_strategy() -> None:
    with pytest.raises(ValueError, match="did you mean 'fsdp'"):
        make_fabric(Devices(strategy="fsd"), "32")


def test_flags_of_torch_are_restored() -> None:
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    with reproducible(True):
        assert torch.are_deterministic_algorithms_enabled() and not torch.backends.cudnn.benchmark
    assert (torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark) == before


def test_leaving_the_group_of_processes(tmp_path: Path) -> None:
    leave_processes()  # there is none
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    leave_processes()
    assert not torch.distributed.is_initialized()
