import pytest

import covpool
from cli.runner import run
from covpool.cli import doctor
from covpool.cli._self_test import self_test


def test_it_shows_the_installation_and_tests_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    result = run("doctor")
    assert "CPU, 1 thread " in result.output
    assert result.exit_code == 0 and covpool.__version__ in result.output
    for name in ("python", "torch", "device", "compiler", "timm", "safetensors", "onnxruntime"):
        assert name in result.output
    assert result.output.count("error ") == 3 and "too large" not in result.output


def test_a_wrong_operation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.ops.depthwise_convolution", lambda x, weight, padding: x * weight[:, 0, :1, :1])
    errors = self_test("cpu")
    assert list(errors) == ["iSQRT-COV", "batch norm and ReLU", "depthwise convolution"]
    said = [str(doctor._accuracy(one)) for one in errors.values()]
    assert [("too large" in one) for one in said] == [False, False, True]


@pytest.mark.parametrize(("tile", "said"), [(128, "tiles of 128"), (64, "tiles of 64"), (0, "torch's")])
def test_it_shows_whether_the_kernels_run(tile: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.kernels.largest_tile", lambda device: tile)
    assert said in doctor._kernels()
