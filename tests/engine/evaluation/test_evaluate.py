"""Crops, mirror images, fusion and SVMs, each against the same computed directly from the pictures."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.svm import LinearSVC
from torch import Tensor

import covpool
from covpool.data._images import Images
from covpool.data._settings import Augment, Data
from covpool.data.pipeline._transforms import preprocessing
from covpool.data.sets._open import Splits, open_data
from covpool.engine.evaluation import _pooled as pooled
from covpool.engine.evaluation._evaluate import Protocol, evaluate, fused_scores
from trees import break_image, make_folder, write_image

SIZE, SIDE = 32, 36
AUGMENT = Augment(size=SIZE, resize=(SIDE, SIDE))


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data(root=str(make_folder(tmp_path / "data", classes=3, per_class=6, size=(SIDE, SIDE))), workers=0)


@pytest.fixture
def splits(data: Data) -> Splits:
    return open_data(data)


def checkpoint(folder: Path, classes: tuple[str, ...], seed: int = 0, pool: str = "isqrt") -> Path:
    torch.manual_seed(seed)
    network = covpool.attach("test_resnet", pool, len(classes), reduce_to=8)
    network(torch.randn(8, 3, SIZE, SIZE))  # gives the batch norms statistics
    path = folder / f"{pool}{seed}.safetensors"
    covpool.save(network, path, class_names=classes, preprocessing=preprocessing(AUGMENT))
    return path


def inputs(images: Images) -> Tensor:
    """The pictures, resized by PIL itself and normalised by hand."""
    mean, std = (torch.tensor(v)[:, None, None] for v in (AUGMENT.mean, AUGMENT.std))
    found = []
    for path in images.paths:
        picture = Image.open(path).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        found.append((torch.from_numpy(np.array(picture)).permute(2, 0, 1) / 255 - mean) / std)
    return torch.stack(found)


def crop(x: Tensor, top: int, left: int) -> Tensor:
    return x[..., top : top + SIZE, left : left + SIZE]


@torch.no_grad()
def probabilities(path: Path, *views: Tensor) -> Tensor:
    network = covpool.load(path)
    return torch.stack([network(view) for view in views]).mean(0).double().softmax(1)


MARGIN, CENTRE = SIDE - SIZE, (SIDE - SIZE) // 2


def test_one_crop_is_the_centre(splits: Splits, data: Data, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    scores, targets = fused_scores([path], splits, data, Protocol(batch_size=4))
    assert torch.allclose(scores.exp(), probabilities(path, crop(inputs(splits.test), CENTRE, CENTRE)), atol=1e-5)
    assert targets.tolist() == splits.test.targets


def test_flip_averages_the_logits_of_the_mirror_image(splits: Splits, data: Data, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    scores, _ = fused_scores([path], splits, data, Protocol(flip=True))
    view = crop(inputs(splits.test), CENTRE, CENTRE)
    assert torch.allclose(scores.exp(), probabilities(path, view, view.flip(-1)), atol=1e-5)


def test_ten_crops_are_corners_and_centre_and_their_mirror_images(splits: Splits, data: Data, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    scores, _ = fused_scores([path], splits, data, Protocol(crops=10))
    x = inputs(splits.test)
    places = [(0, 0), (0, MARGIN), (MARGIN, 0), (MARGIN, MARGIN), (CENTRE, CENTRE)]
    views = [crop(x, *place) for place in places]
    expected = probabilities(path, *views, *(view.flip(-1) for view in views))
    assert torch.allclose(scores.exp(), expected, atol=1e-5)


def test_fusion_averages_probabilities(splits: Splits, data: Data, tmp_path: Path) -> None:
    paths = [checkpoint(tmp_path, splits.test.classes, seed, pool) for seed, pool in enumerate(("isqrt", "avg", "cov"))]
    scores, targets = fused_scores(paths, splits, data, Protocol())
    view = crop(inputs(splits.test), CENTRE, CENTRE)
    expected = sum(probabilities(path, view) for path in paths) / 3
    assert torch.allclose(scores.exp(), expected, atol=1e-5)
    found = evaluate(paths, splits, data, Protocol())
    assert found.accuracy["top1"] == pytest.approx(float((expected.argmax(1) == targets).double().mean()))


@torch.no_grad()
def test_svm_by_the_protocol_of_the_paper(splits: Splits, data: Data, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    network = covpool.load(path)

    def unit(x: Tensor) -> Tensor:
        z = network.pool(network.features(x)).double()
        return z / z.norm(dim=1, keepdim=True)

    train, test = (crop(inputs(part), CENTRE, CENTRE) for part in (splits.train, splits.test))
    z, labels = torch.cat((unit(train), unit(train.flip(-1)))), torch.tensor(splits.train.targets * 2)
    expected = torch.zeros(len(splits.test), 3, dtype=torch.float64)
    for label in range(3):
        svm = LinearSVC(C=1.0, loss="hinge", tol=1e-9, max_iter=10**6).fit(z.numpy(), (labels == label).numpy())
        score = lambda x, svm=svm: torch.from_numpy(svm.decision_function(x.numpy()))  # noqa: E731
        high, low = (score(z)[labels == label].median(), score(z)[labels != label].median())
        mean = (score(unit(test)) + score(unit(test.flip(-1)))) / 2
        expected[:, label] = (mean - low) / (high - low)
    scores, _ = fused_scores([path], splits, data, Protocol(classifier="svm"))
    assert torch.allclose(scores, expected, atol=0.02), "the solver stops at a relative gap of 1e-3"


def test_pooled_features_are_kept_and_found_again(
    splits: Splits, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    protocol = Protocol(classifier="svm", features=tmp_path / "features")
    first, _ = fused_scores([path], splits, data, protocol)
    assert len(list((tmp_path / "features").iterdir())) == 2
    monkeypatch.setattr(pooled, "_representation", None)  # nothing is computed again
    assert torch.equal(fused_scores([path], splits, data, protocol)[0], first)


def test_a_damaged_file_of_pooled_features_is_to_be_deleted(tmp_path: Path) -> None:
    made = pooled.Pooled(torch.ones(2, 3), torch.ones(2, 3), torch.arange(2))
    pooled.cached(tmp_path, {}, lambda: made, pooled.Pooled)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for contents in (whole[:50], whole.replace(b"mirrored", b"reversed")):
        file.write_bytes(contents)
        with pytest.raises(ValueError, match=rf"{file.name} is damaged.*: delete it"):
            pooled.cached(tmp_path, {}, lambda: made, pooled.Pooled)


def test_pooled_features_of_a_picture_that_was_replaced_are_computed_again(
    splits: Splits, data: Data, tmp_path: Path
) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    protocol = Protocol(classifier="svm", features=tmp_path / "features")
    before, _ = fused_scores([path], splits, data, protocol)
    write_image(splits.test.paths[0], size=(70, 50), hue=999)
    after, _ = fused_scores([path], splits, data, protocol)
    changed = (before != after).any(1)
    assert changed[0] and not changed[1:].any()


def test_the_representation_of_a_pool_that_gives_scores(splits: Splits, data: Data, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = covpool.attach("test_resnet", "lrbp", 3, reduce_to=None, bottleneck=8)
    path = tmp_path / "lrbp.safetensors"
    covpool.save(network, path, class_names=splits.test.classes, preprocessing=preprocessing(AUGMENT))
    assert evaluate([path], splits, data, Protocol(classifier="svm")).images == len(splits.test)


def test_a_broken_picture_is_left_out_or_refused(splits: Splits, data: Data, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    break_image(splits.test.paths[2])
    with pytest.raises(ValueError, match=str(splits.test.paths[2].name)):
        evaluate([path], splits, data, Protocol())
    skipping = Data(root=data.root, workers=0, broken="skip")
    found = evaluate([path], splits, skipping, Protocol())
    assert (found.images, found.unread) == (len(splits.test) - 1, 1)


def test_other_classes_are_refused(splits: Splits, data: Data, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="knows 2 classes and the data has 3"):
        evaluate([checkpoint(tmp_path, ("x", "y"))], splits, data, Protocol())
    with pytest.raises(ValueError, match="where it has 'x', there is 'class0'"):
        evaluate([checkpoint(tmp_path, ("x", "y", "z"))], splits, data, Protocol())


def test_progress_is_told(splits: Splits, data: Data, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    protocol = Protocol(batch_size=10, on_progress=lambda *step: told.append(step))
    evaluate([checkpoint(tmp_path, splits.test.classes)], splits, data, protocol)
    assert told == [("test, isqrt0.safetensors", 1, 2), ("test, isqrt0.safetensors", 2, 2)]
