"""Deployment: torch.export and ONNX files, compared with the original model before they appear."""

import copy
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.nn.functional import interpolate

from covpool._errors import CovpoolError, UnsupportedError, check_choice, check_positive_int, require
from covpool.io._atomic import replacing
from covpool.io._fold import fold_batch_norm

logger = logging.getLogger(__name__)

Format = Literal["onnx", "pt2"]
FORMATS: tuple[Format, ...] = ("onnx", "pt2")
TOLERANCE = 1e-4  # largest difference, relative to the largest output
BATCHES = (1, 5)
LARGEST_ONNX = 2_000_000_000  # bytes of weights; protobuf stops at 2 GiB

# Solvers of torch.linalg, for which ONNX has no operator.
SOLVERS = ("linalg_eigh", "linalg_svd", "linalg_cholesky", "linalg_solve", "linalg_qr")


@dataclass(frozen=True)
class Exported:
    """An exported file.

    Attributes:
        path: The file.
        format: Its format.
        largest_error: Its largest difference from the model, relative to the largest output.
    """

    path: Path
    format: Format
    largest_error: float


def export(
    model: nn.Module,
    path: str | os.PathLike[str],
    *,
    to: Format = "onnx",
    sizes: Sequence[int] = (224, 320),
    channels: int = 3,
    metadata: Mapping[str, Any] | None = None,
) -> Exported:
    """Write a model for deployment. The file is run and compared with the model before it appears under its name.

    Batch norms are folded into the convolutions before them. The batch size is free, and so is the image size if
    several `sizes` are given. The file computes in float32. It is compared on noise and on smooth images, in batches of
    1 and 5, at every size, and must agree to 1e-4 of the largest output.

    Args:
        model: A network of `covpool.attach`, `covpool.create_model` or `covpool.load`.
        path: The file to write.
        to: "onnx" (run by onnxruntime and many others), or "pt2" (a torch.export program).
        sizes: Sides of the square images to compare at. A single one fixes the image size, for networks that take no
            other (ViT).
        channels: Channels of the images.
        metadata: Anything JSON can hold, such as class names and preprocessing; kept in the file under "covpool".

    Returns: The path, and the largest relative difference.

    >>> import tempfile, covpool
    >>> model = covpool.Network(nn.Conv2d(3, 8, 3, stride=4), covpool.create_pool("isqrt", 8), nn.Linear(36, 5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(model, f"{folder}/model.pt2", to="pt2", sizes=(32, 48)).largest_error < 1e-4
    True
    """
    check_choice("to", to, FORMATS)
    check_positive_int("channels", channels)
    if not sizes:
        raise CovpoolError("`sizes` must have at least one side length, in pixels; got none")
    for size in sizes:
        check_positive_int("sizes", size)
    original = copy.deepcopy(model).cpu().float().eval().requires_grad_(False)
    extra = json.dumps(None if metadata is None else dict(metadata))
    if to == "onnx":
        for module in ("onnx", "onnxscript", "onnxruntime"):
            require(module, "export")
    with torch.no_grad():
        program = inference_program(original, sizes, channels)
        with replacing(path) as partial:
            if to == "onnx":
                _refuse_solvers(program)
                run = _write_onnx(program, partial, extra)
            else:
                run = _write_pt2(program, partial, extra)
            error = _compare(original, run, sizes, channels)
    logger.info("wrote %s; its outputs differ from the model's by %.1e of the largest output", path, error)
    return Exported(Path(path), to, error)


def inference_program(model: nn.Module, sizes: Sequence[int], channels: int = 3) -> ExportedProgram:
    """The torch.export program of a model in eval mode with its batch norms folded."""
    example = (torch.zeros(2, channels, sizes[0], sizes[0]),)
    free: dict[int, Any] = {0: Dim.DYNAMIC}
    if len(set(sizes)) > 1:
        free |= {2: Dim.DYNAMIC, 3: Dim.DYNAMIC}
    try:
        graph_module = torch.export.export(model, example, dynamic_shapes=(free,), strict=False).module()
    except Exception as error:
        raise UnsupportedError(
            f"torch.export cannot trace this network for images of {list(sizes)} px; "
            f"if it takes one size only, give that size: sizes=({sizes[0]},)"
        ) from error
    assert isinstance(graph_module, torch.fx.GraphModule)
    fold_batch_norm(graph_module)
    return torch.export.export(graph_module, example, dynamic_shapes=(free,), strict=False)


def _refuse_solvers(program: ExportedProgram) -> None:
    targets = {str(node.target) for module in program.graph_module.modules() for node in _nodes(module)}
    found = sorted(target for target in targets if any(solver in target for solver in SOLVERS))
    if found:
        raise CovpoolError(
            f"this network computes {', '.join(found)}, for which ONNX has no operator. Use the Newton-Schulz "
            "equivalents, which are matrix products: pool 'isqrt' for 'mpn' (alpha = 1/2), solver='newton_schulz' for "
            "'gaussian'. Or export to='pt2', which needs no change"
        )


def _nodes(module: nn.Module) -> Sequence[torch.fx.Node]:
    return list(module.graph.nodes) if isinstance(module, torch.fx.GraphModule) else []


def _write_onnx(program: ExportedProgram, path: Path, extra: str) -> Callable[[Tensor], Tensor]:
    weights = sum(tensor.nbytes for tensor in program.state_dict.values())
    if weights > LARGEST_ONNX:
        raise CovpoolError(f"an ONNX file holds 2 GB of weights; got {weights / 1e9:.1f} GB: export to='pt2'")
    axes = ({0: "batch", 2: "height", 3: "width"},)
    exported = torch.onnx.export(
        program, input_names=["images"], output_names=["logits"], dynamic_shapes=axes, dynamo=True, verbose=False
    )
    assert exported is not None
    exported.model.metadata_props["covpool"] = extra
    exported.save(path, external_data=False)
    session = require("onnxruntime", "export").InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(["logits"], {"images": x.numpy()})[0])


def _write_pt2(program: ExportedProgram, path: Path, extra: str) -> Callable[[Tensor], Tensor]:
    try:
        torch.export.save(program, path, extra_files={"covpool.json": extra})
    except ValueError as error:  # torch 2.8 writes the constants as JSON without NaN
        raise UnsupportedError(
            f"torch {torch.__version__} cannot write this network ({error}): upgrade torch"
        ) from error
    return torch.export.load(path).module()


def _compare(model: nn.Module, run: Callable[[Tensor], Tensor], sizes: Sequence[int], channels: int) -> float:
    """The largest difference between two computations of the same network, relative to the largest output."""
    worst = 0.0
    for size in dict.fromkeys(sizes):
        for batch in BATCHES:
            for x in (_noise(batch, channels, size), _smooth(batch, channels, size)):
                expected, got = model(x), run(x)
                error = float((got - expected).abs().max() / expected.abs().max())
                if not error <= TOLERANCE:
                    raise UnsupportedError(
                        f"the exported network must agree with the model to {TOLERANCE:.0e} of the largest output; it "
                        f"differs by {error:.1e} at batch size {batch} and {size} px. Nothing was written"
                    )
                worst = max(worst, error)
    return worst


def _noise(batch: int, channels: int, size: int) -> Tensor:
    return torch.randn(batch, channels, size, size, generator=torch.Generator().manual_seed(size))


def _smooth(batch: int, channels: int, size: int) -> Tensor:
    """Images with the statistics of natural ones: half the contrast at half the scale, and correlated channels."""
    generator = torch.Generator().manual_seed(size)
    x = torch.zeros(batch, channels, size, size)
    for cells in (2, 4, 8, 16, 32, 64):
        grey = torch.randn(batch, 1, cells, cells, generator=generator)
        colour = 0.3 * torch.randn(batch, channels, cells, cells, generator=generator)
        x += interpolate(grey + colour, (size, size), mode="bilinear") * (2 / cells)
    return x
