"""`covpool embed` and `covpool neighbours` as a user types them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import covpool
from cli.runner import refused, run
from covpool.studies.embed import _embed as flow
from covpool.studies.embed import read_embeddings
from trees import break_image, make_folder, write_image

SETTINGS = ("width=8", "size=96", "pretrained=false", "--workers", 0, "--device", "cpu")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "data", classes=3, per_class=3)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    network, path = covpool.attach("test_resnet", "isqrt", 3, reduce_to=8), tmp_path / "model.safetensors"
    network(torch.randn(8, 3, 32, 32))
    covpool.save(network, path, preprocessing={"size": 32, "resize": [36]})
    return path


def embed(root: Path, out: Path, *arguments: object) -> str:
    result = run("embed", root, "--out", out, *arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_backbone_embeds_a_folder_and_new_images(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "vectors.npz"
    said = embed(root, out, "--model", "test_resnet", *SETTINGS)
    assert "wrote 18 vectors of 36 numbers" in said and "started from 18 of these images" in said
    with np.load(out) as file:
        assert file["vectors"].shape == (18, 36) and file["vectors"].dtype == np.float32
        assert sorted(file["labels"]) == sorted([0, 1, 2] * 6)
        assert list(file["class_names"]) == ["class0", "class1", "class2"]
        assert np.allclose(np.linalg.norm(file["vectors"], axis=1), 1)
        path, vector = Path(str(file["paths"][0])), file["vectors"][0]
    copied = tmp_path / "copy.png"
    copied.write_bytes(path.read_bytes())
    result = run("neighbours", copied, "--in", out, "--top", 2, "--json", "--device", "cpu")
    found = json.loads(result.output)["neighbours"]
    assert len(found) == 2 and found[0]["image"] == str(path) and found[0]["similarity"] == pytest.approx(1, abs=1e-5)
    embeddings = read_embeddings(out)
    assert np.allclose(flow.embed_image(copied, embeddings, out), vector, atol=1e-5)


def test_a_model_without_a_trained_classifier_predicts_nothing(root: Path, tmp_path: Path) -> None:
    embed(root, tmp_path / "vectors.npz", "--model", "test_resnet", *SETTINGS)
    image = next((root / "test").rglob("*.*g"))
    model = tmp_path / "vectors.model.safetensors"
    for said in (refused("predict", model, image), refused("eval", model, "--data", root)):
        assert "has no trained classifier" in said


def test_more_images_than_a_pool_starts_from(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "spread", lambda count: list(range(0, count, 2)))
    embed(root, tmp_path / "vectors.npz", "--model", "test_resnet", *SETTINGS)
    assert len(read_embeddings(tmp_path / "vectors.npz")) == 18


def test_a_checkpoint_embeds_a_folder(root: Path, checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "vectors.npz"
    said = embed(root / "test", out, "--model", checkpoint, "--no-normalize", "--workers", 0, "--device", "cpu")
    assert "wrote 9 vectors of 36 numbers" in said and not list(tmp_path.glob("*.model.safetensors"))
    new = write_image(tmp_path / "new.png")
    result = run("neighbours", new, "--in", out, "--model", checkpoint, "--device", "cpu")
    assert result.exit_code == 0 and "similarity" in result.output and result.output.count("class") > 3
    assert not np.allclose(np.linalg.norm(read_embeddings(out).vectors, axis=1), 1)


def test_an_embedded_image_needs_no_model(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "vectors.npz"
    embed(root, out, "--model", "test_resnet", *SETTINGS)
    (tmp_path / "vectors.model.safetensors").unlink()
    image = root / "test" / "class1" / "test_1_0.png"
    found = json.loads(run("neighbours", image, "--in", out, "--json").output)["neighbours"]
    assert len(found) == 5 and str(image) not in [one["image"] for one in found]
    assert "name its checkpoint with --model" in refused("neighbours", write_image(tmp_path / "new.png"), "--in", out)


def test_how_often_the_nearest_image_has_the_right_class(root: Path, checkpoint: Path, tmp_path: Path) -> None:
    train, test = tmp_path / "train.npz", tmp_path / "test.npz"
    for part, out in ((root / "train", train), (root / "test", test)):
        embed(part, out, "--model", checkpoint, "--workers", 0, "--device", "cpu")
    found = json.loads(run("neighbours", test, "--in", train, "--json").output)
    assert found["images"] == 9 and found["interval"][0] < found["top1"] < found["interval"][1] + 1e-9
    assert f"for {100 * found['top1']:.1f} % of 9 images" in " ".join(
        run("neighbours", test, "--in", train).output.split()
    )


def test_another_model_is_refused(root: Path, checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "vectors.npz"
    embed(root, out, "--model", "test_resnet", *SETTINGS)
    for image in (write_image(tmp_path / "new.png"), root / "test" / "class1" / "test_1_0.png"):
        said = refused("neighbours", image, "--in", out, "--model", checkpoint, "--device", "cpu")
        assert "was made by another model than" in said


def test_broken_images(root: Path, tmp_path: Path) -> None:
    break_image(root / "test" / "class1" / "test_1_0.png")
    out = tmp_path / "vectors.npz"
    arguments = ("embed", root, "--model", "test_resnet", "--out", out, *SETTINGS)
    assert "test_1_0.png cannot be read" in refused(*arguments) and "--skip-broken" in refused(*arguments)
    assert not out.exists()
    result = run(*arguments, "--skip-broken")
    assert "wrote 17 vectors" in result.output and "skipped because they cannot be read: 1" in result.output
    assert not any("test_1_0" in path for path in read_embeddings(out).paths)
    said = refused("neighbours", root / "test" / "class1" / "test_1_0.png", "--in", out, "--device", "cpu")
    assert "test_1_0.png cannot be read (" in said


def test_mistakes(root: Path, checkpoint: Path, tmp_path: Path) -> None:
    assert "leave pool=avg out" in refused("embed", root, "pool=avg", "--model", checkpoint)
    assert "there is no file" in refused("embed", root, "--model", tmp_path / "none.safetensors")
    assert "timm has no model 'resnt18'" in refused("embed", root, "--model", "resnt18")
    assert "unknown setting `widht` (did you mean 'width'?)" in refused("embed", root, "widht=3")
    assert "use a larger size" in refused("embed", root, "--model", "test_resnet", *SETTINGS, "size=32")
    assert "written to .npz or .parquet" in refused("embed", root, "--out", "vectors.csv")
    assert "make it with `covpool embed`" in refused("neighbours", root / "x.png", "--in", tmp_path / "none.npz")
