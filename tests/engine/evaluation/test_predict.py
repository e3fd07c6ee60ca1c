"""Predictions by checkpoints of every precision, for names and images of every kind."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from PIL import Image

import covpool
from cli.runner import run
from covpool.engine import _infer
from covpool.engine._graphs import CapturedForward
from covpool.engine._infer import capture_logits
from covpool.engine.evaluation import predict
from trees import break_image, write_image


def make_checkpoint(path: Path, dtype: torch.dtype = torch.float32, names: tuple[str, ...] = ("a", "b")) -> Path:
    torch.manual_seed(0)
    covpool.save(covpool.attach("test_resnet", "isqrt", 2, reduce_to=4).to(dtype), path, class_names=names)
    return path


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_precision_loads_and_predicts(dtype: torch.dtype, tmp_path: Path) -> None:
    image = write_image(tmp_path / "image.png")
    expected, got = (
        dict(next(predict(make_checkpoint(tmp_path / f"{kind}.safetensors", kind), [image])).classes)
        for kind in (torch.float32, dtype)
    )
    assert covpool.load(tmp_path / f"{dtype}.safetensors").get_classifier().weight.dtype == dtype
    assert got["a"] == pytest.approx(expected["a"], abs=0.02)


@pytest.mark.parametrize("broken", [(), (0, 1, 4), (2, 3, 4, 6), range(7)])
def test_batches_share_one_forward_pass_and_keep_the_order(
    broken: Sequence[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [write_image(tmp_path / f"{i}.png", hue=i) for i in range(7)]
    checkpoint = make_checkpoint(tmp_path / "model.safetensors")
    expected = [next(predict(checkpoint, [image])) for image in images]
    for i in broken:
        break_image(images[i])
    made: list[CapturedForward] = []
    monkeypatch.setattr(_infer, "capture_logits", lambda net: made.append(capture_logits(net)) or made[-1])
    found = list(predict(checkpoint, images, batch_size=2))
    assert len(made) == 1
    assert [one.path for one in found] == images
    for i, one in enumerate(found):
        assert bool(one.error) == (i in broken)
        assert one.error or dict(one.classes) == pytest.approx(dict(expected[i].classes), abs=1e-5)


def test_a_narrow_image_is_named_with_its_reason(tmp_path: Path) -> None:
    Image.new("RGB", (1, 60_000)).save(tmp_path / "narrow.png")
    (found,) = predict(make_checkpoint(tmp_path / "model.safetensors"), [tmp_path / "narrow.png"])
    assert found.error.startswith("too narrow: 1 x 60000 pixels would be resized to")


def test_names_cannot_control_the_terminal(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "model.safetensors", names=("cat\x1b[2J", "dog\u202e"))
    image = write_image(tmp_path / "images" / "a\x1b]0;owned\x07.png")
    bad = tmp_path / "images" / "b\x1b[31m.png"
    bad.write_text("")
    for result in (run("predict", checkpoint, image.parent), run("predict", checkpoint, image.parent, "--json")):
        assert result.exit_code == 1 and not set("\x1b\x07\u202e") & set(result.output)
        assert "dog" in result.output and "owned" in result.output
