import pytest

import covpool
from cli.runner import run
from covpool.cli import doctor


def test_it_shows_the_installation_and_tests_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    result = run("doctor")
    assert "CPU, 1 thread " in result.output
    assert result.exit_code == 0 and covpool.__version__ in result.output
    for name in ("python", "torch", "device", "compiler", "timm", "safetensors", "onnxruntime"):
        assert name in result.output
    assert "relative error" in result.output and "too large" not in result.output


@pytest.mark.parametrize(("tile", "said"), [(128, "tiles of 128"), (64, "tiles of 64"), (0, "torch's")])
def test_it_shows_whether_the_kernels_run(tile: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.kernels.largest_tile", lambda device: tile)
    assert said in doctor._kernels()
