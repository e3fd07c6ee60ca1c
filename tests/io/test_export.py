"""An exported file computes what the model computes; otherwise no file is written."""

import json
import sys
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import covpool
from covpool import Network, attach, create_pool, ops
from covpool._errors import MissingPackageError, UnsupportedError
from covpool.io import export
from covpool.io._export import TOLERANCE, Format, _smooth

both_formats = pytest.mark.parametrize("to", ["onnx", "pt2"])
EXPORTABLE: dict[str, dict[str, object]] = {
    "avg": {},
    "bcnn": {},
    "cov": {},
    "gaussian": {"solver": "newton_schulz"},
    "gem": {},
    "isqrt": {"normalize": ("bn", "l2")},
    "max": {},
}


def run(path: Path, x: Tensor) -> Tensor:
    if path.suffix == ".pt2":
        z: Tensor = torch.export.load(path).module()(x)
        return z
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


def with_used_norms(model: nn.Module) -> nn.Module:
    """Give the batch norms statistics other than their initial ones."""
    generator = torch.Generator().manual_seed(0)
    for name, buffer in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.data = 0.5 + torch.rand(buffer.shape, generator=generator)
    return model


def small(pool: str = "isqrt", **options: object) -> nn.Module:
    """Return a small network. Its feature maps are 28 x 28 at 224 px: more positions than channels."""
    torch.manual_seed(0)
    features = nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=4, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 24, 1)
    )
    made = create_pool(pool, 24, reduce_to=16, **options)
    classifier = nn.Sequential(nn.Dropout(), nn.Linear(made.out_features, 5))
    return with_used_norms(Network(features, made, classifier))


def relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max())


@both_formats
@pytest.mark.parametrize(
    ("backbone", "sizes"),
    [
        ("test_resnet", (64, 96)),
        pytest.param("torchvision/resnet18", (224, 320), marks=pytest.mark.long),
    ],
)
@torch.no_grad()
def test_a_resnet_at_several_sizes_and_batches(
    backbone: str, sizes: tuple[int, int], to: Format, tmp_path: Path
) -> None:
    model = with_used_norms(attach(backbone, "isqrt", num_classes=10, reduce_to=32))
    done = export(model, tmp_path / f"model.{to}", to=to, sizes=sizes)
    assert done.largest_error <= TOLERANCE and done.path.is_file() and done.format == to
    assert model.training, "the model itself is left as it was"
    model.eval()
    small, large = sizes
    for shape in ((1, 3, small, small), (5, 3, large, large), (3, 3, small - 24, large - 40)):
        x = torch.randn(shape)
        assert relative(run(done.path, x), model(x)) <= 1e-4


# An ONNX file is made from the program of a pt2 file, so one pool is enough for the latter.
@pytest.mark.parametrize(("pool", "to"), [*((pool, "onnx") for pool in EXPORTABLE), ("bcnn", "pt2")])
@torch.no_grad()
def test_pools(pool: str, to: Format, tmp_path: Path) -> None:
    model = small(pool, **EXPORTABLE[pool])
    path = tmp_path / f"model.{to}"
    export(model, path, to=to, sizes=(64, 96))
    for size in (64, 100):  # fewer positions than channels, and more
        x = _smooth(2, 3, size)
        assert relative(run(path, x), model.eval()(x)) <= 1e-4


@both_formats
@torch.no_grad()
def test_a_linear_reduction(to: Format, tmp_path: Path) -> None:
    model, path, x = small(reduce_kind="linear"), tmp_path / f"model.{to}", _smooth(2, 3, 96)
    model.pool.init_reduction([model.features.eval()(x)])
    export(model, path, to=to, sizes=(64, 96))
    assert relative(run(path, x), model.eval()(x)) <= 1e-4


@torch.no_grad()
def test_eigen_decompositions_stay_in_torch(tmp_path: Path) -> None:
    model = small("mpn")
    with pytest.raises(ValueError, match=r"eigh.* no operator.*'isqrt'.*solver='newton_schulz'"):
        export(model, tmp_path / "model.onnx", sizes=(64,))
    assert not list(tmp_path.iterdir())
    if torch.__version__.startswith("2.8"):
        with pytest.raises(UnsupportedError, match=r"torch 2\.8.* cannot write this network .*: upgrade torch"):
            export(model, tmp_path / "model.pt2", to="pt2", sizes=(64, 96))
        assert not list(tmp_path.iterdir())
        return
    export(model, tmp_path / "model.pt2", to="pt2", sizes=(64, 96))
    x = torch.randn(3, 3, 80, 64)
    assert relative(run(tmp_path / "model.pt2", x), model.eval()(x)) <= 1e-4


def test_batch_norms_are_folded_and_no_layers_of_training_remain(tmp_path: Path) -> None:
    model = small()
    export(model, tmp_path / "model.onnx", sizes=(64, 96), metadata={"class_names": ["a", "b"]})
    file = onnx.load(tmp_path / "model.onnx")
    kinds = {node.op_type for node in file.graph.node}
    assert not kinds & {"BatchNormalization", "Dropout", "If", "Loop"}
    assert json.loads(file.metadata_props[0].value) == {"class_names": ["a", "b"]}
    axes = [axis.dim_param or axis.dim_value for axis in file.graph.input[0].type.tensor_type.shape.dim]
    assert axes == ["batch", 3, "height", "width"]
    export(model, tmp_path / "model.pt2", to="pt2", sizes=(64, 96), metadata={"class_names": ["a", "b"]})
    extra = {"covpool.json": ""}
    program = torch.export.load(tmp_path / "model.pt2", extra_files=extra)
    assert json.loads(extra["covpool.json"]) == {"class_names": ["a", "b"]}
    assert not any("batch_norm" in str(n.target) or "dropout" in str(n.target) for n in program.graph.nodes)
    assert not any("running" in name or "tracked" in name for name in program.state_dict)


@torch.no_grad()
def test_a_network_of_one_size(tmp_path: Path) -> None:
    options = {"img_size": 32, "patch_size": 8, "depth": 1}
    model = attach("vit_tiny_patch16_224", "isqrt", 4, reduce_to=16, backbone_options=options)
    with pytest.raises(RuntimeError, match=r"sizes=\(32,\)"):
        export(model, tmp_path / "model.onnx", sizes=(32, 64))
    export(model, tmp_path / "model.onnx", sizes=(32,))
    x = torch.randn(3, 3, 32, 32)
    assert relative(run(tmp_path / "model.onnx", x), model.eval()(x)) <= 1e-4


@torch.no_grad()
def test_a_half_precision_model_is_exported_in_float32(tmp_path: Path) -> None:
    model = small().to(torch.bfloat16)
    export(model, tmp_path / "model.pt2", to="pt2", sizes=(64, 96))
    x = torch.randn(2, 3, 64, 64)
    assert relative(run(tmp_path / "model.pt2", x), model.float().eval()(x)) <= 1e-4


# --- a wrong file is not written ------------------------------------------------------------------


@both_formats
def test_a_file_that_differs_is_not_written(to: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["covpool.io._export"]
    honest = module._compare  # type: ignore[attr-defined]

    def spoiled(model: nn.Module, run: object, *rest: object) -> float:
        with torch.no_grad():
            next(model.parameters()).mul_(1.01)
        error: float = honest(model, run, *rest)
        return error

    monkeypatch.setattr(module, "_compare", spoiled)
    with pytest.raises(RuntimeError, match="Nothing was written"):
        export(small(), tmp_path / f"model.{to}", to=to, sizes=(64, 96))
    assert not list(tmp_path.iterdir())


def test_a_model_without_finite_outputs_is_not_written(tmp_path: Path) -> None:
    model = small()
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    with pytest.raises(RuntimeError, match="Nothing was written"):
        export(model, tmp_path / "model.pt2", to="pt2", sizes=(64, 96))
    assert not list(tmp_path.iterdir())


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'onnx'"):
        export(small(), tmp_path / "model", to="onx")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sizes"):
        export(small(), tmp_path / "model.onnx", sizes=())


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingPackageError, match=r"covpool\[export\]"):
        export(nn.Linear(2, 2), tmp_path / "model.onnx")


# --- the operations themselves --------------------------------------------------------------------


class Operation(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.operation = getattr(ops, name)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.operation(x)
        return z


@pytest.mark.parametrize(("name", "free"), [("isqrt_covariance", (0, 1)), ("sqrtm_newton_schulz", (0,))])
@pytest.mark.parametrize("exporter", ["torch.export", "torch.onnx"])
@torch.no_grad()
def test_operations_export_by_themselves(name: str, free: tuple[int, ...], exporter: str, tmp_path: Path) -> None:
    operation = Operation(name).eval()
    x = torch.randn(2, 40, 12) if name == "isqrt_covariance" else ops.covariance(torch.randn(2, 40, 12))
    dynamic = (dict.fromkeys(free, torch.export.Dim.DYNAMIC),)
    if exporter == "torch.export":
        path = tmp_path / "operation.pt2"
        torch.export.save(torch.export.export(operation, (x,), dynamic_shapes=dynamic), path)
    else:
        path = tmp_path / "operation.onnx"
        program = torch.onnx.export(operation, (x,), dynamic_shapes=dynamic, dynamo=True, verbose=False)
        assert program is not None
        program.save(path)
    for n in (3, 50):  # on both sides of the number of channels
        y = torch.randn(5, n, 12) if name == "isqrt_covariance" else ops.covariance(torch.randn(5, n, 12))
        assert relative(run(path, y), operation(y)) <= 1e-4


def test_smooth_images_have_the_correlated_channels_of_natural_ones() -> None:
    """Red, green and blue of natural images correlate by 0.8 and more."""
    channels = _smooth(16, 3, 64).transpose(0, 1).flatten(1)
    assert torch.corrcoef(channels).min() > 0.8


def test_export_is_public() -> None:
    assert covpool.io.export is export
