import covpool
from cli.runner import run


def test_it_names_what_is_here_and_tests_it() -> None:
    result = run("doctor")
    assert result.exit_code == 0 and covpool.__version__ in result.output
    for name in ("python", "torch", "device", "compiler", "timm", "safetensors", "onnxruntime"):
        assert name in result.output
    assert "relative error" in result.output and "too large" not in result.output
