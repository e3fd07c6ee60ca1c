from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from covpool._files import find_state, read_tensors


def test_both_formats_are_read(tmp_path: Path) -> None:
    state = {"a": torch.randn(3), "b": torch.arange(4)}
    torch.save(state, tmp_path / "state.pth")
    save_file(state, tmp_path / "state.safetensors")
    for path in (tmp_path / "state.pth", str(tmp_path / "state.safetensors")):
        read = read_tensors(path)
        assert read.keys() == state.keys()
        assert all(torch.equal(read[key], state[key]) for key in state)


def test_what_is_no_state_dict_is_refused(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ValueError, match="must hold a state dict; got list"):
        read_tensors(tmp_path / "list.pth")
    with pytest.raises(FileNotFoundError, match="no weights file"):
        read_tensors(tmp_path / "nowhere.pth")


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_damaged_files_are_called_so(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"text{suffix}").write_text("hello")
    with pytest.raises(ValueError, match="is damaged"):
        read_tensors(tmp_path / f"text{suffix}")


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
def test_a_state_dict_is_found_in_its_wrapping(key: str) -> None:
    state = {"weight": torch.ones(1)}
    assert find_state({"epoch": 3, key: state}) is state
    assert find_state(state) is state
