"""Which back-end and precision are chosen: pure functions."""

import multiprocessing
import warnings
from multiprocessing.connection import Connection

import pytest
import torch

from covpool.bench._record import environment
from covpool.ops import isqrt_covariance
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


def with_the_newer_setting(results: Connection) -> None:
    warnings.simplefilter("ignore")
    torch.compiler.reset()
    x = torch.randn(2, 9, 4)
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    recorded = environment(x.device, 0)["matmul_precision"]
    compiled = torch.compile(isqrt_covariance, fullgraph=True, backend="eager")
    results.send((matmul_precision(x, None), recorded, tuple(compiled(x).shape)))


def test_torchs_newer_setting_is_read_too_and_compiled() -> None:
    """In a copy of this process, because torch refuses its older setting after the newer one was used."""
    if not NEWER_SETTING:
        pytest.skip("torch has no fp32_precision yet")
    results, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=with_the_newer_setting, args=(sender,))
    process.start()
    with results, sender:
        assert results.poll(60), "the process failed"
        assert results.recv() == ("tf32", "high", (2, 4, 4))
    process.join()
