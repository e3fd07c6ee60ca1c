"""Which back-end and precision are chosen: pure functions."""

import subprocess
import sys

import pytest
import torch

from covpool.ops._backend import (
    LARGEST_ORDER,
    NEWER_SETTING,
    choose_backend,
    kernel_form,
    kernels_serve,
    matmul_precision,
)


def test_kernels_serve_supported_arguments_only() -> None:
    x = torch.empty(2, 49, 256, device="meta")
    assert kernels_serve(x, 256, 5, "trace")
    assert kernels_serve(x.bfloat16(), 256, 3, "trace")
    assert not kernels_serve(x.double(), 256, 5, "trace")
    assert not kernels_serve(x, 256, 5, "frobenius")
    assert not kernels_serve(x, 256, 2, "trace")
    assert not kernels_serve(x, 256, 8, "trace")
    assert not kernels_serve(x, LARGEST_ORDER + 1, 5, "trace")
    assert not kernels_serve(torch.empty(256, 257, 2, 2, device="meta"), 2, 5, "trace")
    assert not kernels_serve(torch.empty(1, 2048 * 2048, 2, device="meta"), 2, 5, "trace")


def test_auto_takes_the_kernels_on_a_gpu_only() -> None:
    assert choose_backend("auto", "cuda", served=True) == "triton"
    assert choose_backend("auto", "cuda", served=False) == "torch"
    assert choose_backend("auto", "cpu", served=True) == "torch"
    assert choose_backend("torch", "cuda", served=True) == "torch"
    assert choose_backend("triton", "cpu", served=True) == "triton"  # Triton's interpreter, or its own error
    with pytest.raises(ValueError, match="use backend='torch'"):
        choose_backend("triton", "cuda", served=False)


def test_the_form_is_chosen_by_whole_tiles() -> None:
    assert kernel_form(49, 256) == "dual"
    assert kernel_form(196, 256) == "primal"
    assert kernel_form(196, 512) == "dual"
    assert kernel_form(784, 256) == "primal"


def test_precision_follows_autocast_and_torchs_setting() -> None:
    x = torch.zeros(1)
    assert matmul_precision(x, None) == "float32"
    assert matmul_precision(x, "bf16") == "bf16"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert matmul_precision(x, None) == "tf32"
        assert matmul_precision(x, "float32") == "float32"
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        assert matmul_precision(x, None) == "tf32"
    finally:
        torch.set_float32_matmul_precision(before)


WITH_THE_NEWER_SETTING = """
import torch
from covpool._records import environment
from covpool.ops import isqrt_covariance
from covpool.ops._backend import matmul_precision

x = torch.randn(2, 9, 4)
torch.backends.cuda.matmul.fp32_precision = "tf32"
assert matmul_precision(x, None) == "tf32"
assert environment(x.device, 0)["matmul_precision"] == "high"
compiled = torch.compile(isqrt_covariance, fullgraph=True, backend="eager")
assert compiled(x).shape == (2, 4, 4)
"""


@pytest.mark.skipif(not NEWER_SETTING, reason="torch has no fp32_precision yet")
def test_torchs_newer_setting_is_read_too_and_compiled() -> None:
    """In a process of its own, because torch refuses its older setting after the newer one was used."""
    program = [sys.executable, "-W", "ignore", "-c", WITH_THE_NEWER_SETTING]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
