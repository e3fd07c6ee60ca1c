"""`covpool doctor`: is this set-up sound?"""

import importlib.metadata
import platform
import shutil

import torch
from rich.console import Console
from rich.table import Table

import covpool
from covpool.kernels import batched_eigh_available, largest_tile

OPTIONAL = {
    "timm": "backbones (models)",
    "torchvision": "backbones, transforms (models)",
    "safetensors": "checkpoints (models)",
    "matplotlib": "plots (plots)",
    "scikit-image": "demo pictures (plots)",
    "lightning": "training (train)",
    "torchmetrics": "training and evaluation (train)",
    "scikit-learn": "linear SVMs (train)",
    "jinja2": "reports (train)",
    "tensorboard": "curves (train)",
    "onnx": "export (export)",
    "onnxruntime": "export (export)",
    "onnxscript": "export (export)",
}


def doctor() -> None:
    """What is installed, which device will be used, and whether pooling works here."""
    table = Table(show_header=False)
    table.add_row("covpool", covpool.__version__)
    table.add_row("python", platform.python_version())
    table.add_row("torch", torch.__version__)
    table.add_row("device", _device())
    table.add_row("kernels on a GPU", _kernels(torch.cuda.is_available()))
    table.add_row("eigen-decomposition on a GPU", _eigen_solver(torch.cuda.is_available()))
    table.add_row(
        "C++ compiler (torch.compile on a CPU)", shutil.which("g++") or shutil.which("clang++") or "[red]none[/]"
    )
    for name, purpose in OPTIONAL.items():
        table.add_row(f"{name}: {purpose}", _version(name))
    table.add_row("iSQRT-COV against float64", _self_test())
    Console().print(table)


def _device() -> str:
    if not torch.cuda.is_available():
        return f"CPU, {torch.get_num_threads()} threads"
    return f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"


def _kernels(has_gpu: bool) -> str:
    if not has_gpu:
        return "no GPU"
    tile = largest_tile(torch.device("cuda"))
    if not tile:
        return (
            "[yellow]torch's operations: ours need Triton and an NVIDIA GPU from compute capability 8.0 on, "
            "for 10 with torch 2.10, for 11 with torch 2.12 or later[/]"
        )
    return f"Triton, tiles of {tile}"


def _eigen_solver(has_gpu: bool) -> str:
    if not has_gpu:
        return "no GPU"
    if batched_eigh_available():
        return "cuSOLVER, the whole batch at once"
    return "[yellow]torch.linalg.eigh, one matrix after the other: torch for CUDA 12.6 or later does better[/]"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "[yellow]not installed[/]"


def _self_test() -> str:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(2, 49, 64, generator=torch.Generator().manual_seed(0)).to(device)
    oracle = covpool.ops.reference.isqrt_literal(x.double())
    error = float((covpool.ops.isqrt_covariance(x) - oracle).norm() / oracle.norm())
    return f"relative error {error:.1e}" + ("" if error < 1e-5 else " [red]too large[/]")
