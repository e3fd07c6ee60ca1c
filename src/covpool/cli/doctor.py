"""`covpool doctor`: check this installation."""

import importlib.metadata
import platform
import shutil
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

import covpool
from covpool.cli._output import Cell, facts

if TYPE_CHECKING:
    from covpool.cli._self_test import Errors

OPTIONAL = {
    "timm": "backbones (models)",
    "torchvision": "backbones, transforms (models)",
    "safetensors": "checkpoints (models)",
    "matplotlib": "plots (plots)",
    "lightning-fabric": "training (train)",
    "scikit-learn": "linear SVMs (train)",
    "jinja2": "reports (train)",
    "tensorboard": "learning curves (train)",
    "onnx": "export (export)",
    "onnxruntime": "export (export)",
    "onnxscript": "export (export)",
}

LARGEST_ERROR = 1e-5  # of float32


def command() -> None:
    """Show what is installed, which device covpool uses, and whether its operations are accurate on it."""
    import torch

    from covpool.cli._self_test import self_test

    has_gpu = torch.cuda.is_available()
    gpu = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}" if has_gpu else ""
    compiler = shutil.which("g++") or shutil.which("clang++") or Text("none", "red")
    threads = torch.get_num_threads()
    rows = [
        ("covpool", covpool.__version__),
        ("python", platform.python_version()),
        ("torch", torch.__version__),
        ("device", gpu or f"CPU, {threads} thread{'s' * (threads > 1)}"),
        ("kernels on a GPU", _kernels() if has_gpu else "no GPU"),
        ("eigen-decomposition on a GPU", _eigen_solver() if has_gpu else "no GPU"),
        ("C++ compiler (torch.compile on a CPU)", compiler),
        *((f"{name}: {purpose}", _version(name)) for name, purpose in OPTIONAL.items()),
        *(
            (f"{name} against float64", _accuracy(errors))
            for name, errors in self_test("cuda" if has_gpu else "cpu").items()
        ),
    ]
    Console().print(facts(rows))


def _kernels() -> Cell:
    import torch

    from covpool.kernels import largest_tile

    tile = largest_tile(torch.device("cuda"))
    if not tile:
        return Text(
            "torch's operations: covpool's kernels need Triton and an NVIDIA GPU of compute capability 8.0 or later "
            "(10 needs torch 2.10 or later, 11 needs torch 2.12 or later)",
            "yellow",
        )
    return f"Triton, tiles of {tile}"


def _eigen_solver() -> Cell:
    from covpool.kernels import batched_eigh_available

    if batched_eigh_available():
        return "cuSOLVER, the whole batch at once"
    return Text("torch.linalg.eigh, one matrix at a time; torch for CUDA 12.6 or later is faster", "yellow")


def _version(name: str) -> Cell:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Text("not installed", "yellow")


def _accuracy(errors: "Errors") -> Cell:
    found = f"error {errors.value:.1e}, gradients {errors.gradient:.1e}"
    return found if max(errors) < LARGEST_ERROR else Text(f"{found}: too large", "red")
