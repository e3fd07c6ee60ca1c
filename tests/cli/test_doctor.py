import pytest

import covpool
from cli.runner import run
from covpool.cli import doctor
from covpool.kernels import gpu


def test_it_names_what_is_here_and_tests_it() -> None:
    result = run("doctor")
    assert result.exit_code == 0 and covpool.__version__ in result.output
    for name in ("python", "torch", "device", "compiler", "timm", "safetensors", "onnxruntime"):
        assert name in result.output
    assert "relative error" in result.output and "too large" not in result.output


@pytest.mark.parametrize(("room", "said"), [(gpu.MUCH, "tiles of 128"), (gpu.ENOUGH, "tiles of 64"), (0, "torch's")])
def test_it_says_whether_the_kernels_run(room: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "shared_memory", lambda device: room)
    monkeypatch.setattr(doctor, "TRITON_INSTALLED", True)
    assert said in doctor._kernels(has_gpu=True)
