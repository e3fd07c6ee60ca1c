"""Crops, flips, fusion and SVMs, each against the same computed directly from the images."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.svm import LinearSVC
from torch import Tensor

import covpool
from covpool.data._images import Images
from covpool.data._settings import Data, ResolvedAugment
from covpool.data.pipeline._transforms import preprocessing
from covpool.data.sets._open import Splits, open_data
from covpool.engine.evaluation import _representations as representations
from covpool.engine.evaluation._evaluate import EvaluationProtocol, evaluate, fused_scores
from covpool.engine.evaluation._representations import Representations
from covpool.engine.evaluation._tensor_files import cached
from trees import break_image, make_folder, write_image

SIZE, SIDE = 32, 36
AUGMENT = ResolvedAugment(size=SIZE, resize=(SIDE, SIDE))


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
    """The images, resized by PIL itself and normalized by hand."""
    mean, std = (torch.tensor(v)[:, None, None] for v in (AUGMENT.mean, AUGMENT.std))
    found = []
    for path in images.paths:
        image = Image.open(path).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        found.append((torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255 - mean) / std)
    return torch.stack(found)


def crop(x: Tensor, top: int, left: int) -> Tensor:
    return x[..., top : top + SIZE, left : left + SIZE]


@torch.no_grad()
def probabilities(path: Path, *views: Tensor) -> Tensor:
    network = covpool.load(path)
    return torch.stack([network(view) for view in views]).mean(0).double().softmax(1)


MARGIN, CENTER = SIDE - SIZE, (SIDE - SIZE) // 2


def test_one_crop_is_the_center(splits: Splits, data: Data, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    scores, targets = fused_scores([path], splits, data, EvaluationProtocol(batch_size=4))
    assert torch.allclose(scores.exp(), probabilities(path, crop(inputs(splits.test), CENTER, CENTER)), atol=1e-5)
    assert targets.tolist() == splits.test.targets


def test_flip_averages_the_logits_of_the_flipped_image(splits: Splits, data: Data, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    scores, _ = fused_scores([path], splits, data, EvaluationProtocol(flip=True))
    view = crop(inputs(splits.test), CENTER, CENTER)
    assert torch.allclose(scores.exp(), probabilities(path, view, view.flip(-1)), atol=1e-5)


def test_ten_crops_are_corners_and_center_and_their_flips(splits: Splits, data: Data, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    scores, _ = fused_scores([path], splits, data, EvaluationProtocol(crops=10))
    x = inputs(splits.test)
    corners = [(0, 0), (0, MARGIN), (MARGIN, 0), (MARGIN, MARGIN), (CENTER, CENTER)]
    views = [crop(x, *corner) for corner in corners]
    expected = probabilities(path, *views, *(view.flip(-1) for view in views))
    assert torch.allclose(scores.exp(), expected, atol=1e-5)


def test_fusion_averages_probabilities(splits: Splits, data: Data, tmp_path: Path) -> None:
    paths = [checkpoint(tmp_path, splits.test.classes, seed, pool) for seed, pool in enumerate(("isqrt", "avg", "cov"))]
    scores, targets = fused_scores(paths, splits, data, EvaluationProtocol())
    view = crop(inputs(splits.test), CENTER, CENTER)
    expected = sum(probabilities(path, view) for path in paths) / 3
    assert torch.allclose(scores.exp(), expected, atol=1e-5)
    found = evaluate(paths, splits, data, EvaluationProtocol())
    assert found.accuracy["top1"] == pytest.approx(float((expected.argmax(1) == targets).double().mean()))


@torch.no_grad()
def test_svm_follows_the_protocol_of_the_paper(splits: Splits, data: Data, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    network = covpool.load(path)

    def unit(x: Tensor) -> Tensor:
        z = network.pool(network.features(x)).double()
        return z / z.norm(dim=1, keepdim=True)

    train, test = (crop(inputs(part), CENTER, CENTER) for part in (splits.train, splits.test))
    z, labels = torch.cat((unit(train), unit(train.flip(-1)))), torch.tensor(splits.train.targets * 2)
    expected = torch.zeros(len(splits.test), 3, dtype=torch.float64)
    for label in range(3):
        svm = LinearSVC(C=1.0, loss="hinge", tol=1e-9, max_iter=10**6).fit(z.numpy(), (labels == label).numpy())
        score = lambda x, svm=svm: torch.from_numpy(svm.decision_function(x.numpy()))  # noqa: E731
        high, low = (score(z)[labels == label].median(), score(z)[labels != label].median())
        mean = (score(unit(test)) + score(unit(test.flip(-1)))) / 2
        expected[:, label] = (mean - low) / (high - low)
    scores, _ = fused_scores([path], splits, data, EvaluationProtocol(classifier="svm"))
    assert torch.allclose(scores, expected, atol=0.02), "the solver stops at a relative gap of 1e-3"


def test_representations_are_kept_and_reused(
    splits: Splits, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    protocol = EvaluationProtocol(classifier="svm", features=tmp_path / "features")
    first, _ = fused_scores([path], splits, data, protocol)
    assert len(list((tmp_path / "features").iterdir())) == 2
    monkeypatch.setattr(representations, "represent", None)  # nothing is computed again
    assert torch.equal(fused_scores([path], splits, data, protocol)[0], first)


def test_a_damaged_cache_file_must_be_deleted(tmp_path: Path) -> None:
    made = Representations(torch.ones(2, 3), torch.ones(2, 3), torch.arange(2))
    cached(tmp_path, {}, lambda: made, Representations)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for contents in (whole[:50], whole.replace(b"flipped", b"turned!")):
        file.write_bytes(contents)
        with pytest.raises(ValueError, match=rf"{file.name} is damaged.*: delete it"):
            cached(tmp_path, {}, lambda: made, Representations)


def test_representations_of_a_replaced_image_are_computed_again(splits: Splits, data: Data, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    protocol = EvaluationProtocol(classifier="svm", features=tmp_path / "features")
    before, _ = fused_scores([path], splits, data, protocol)
    write_image(splits.test.paths[0], size=(70, 50), hue=999)
    after, _ = fused_scores([path], splits, data, protocol)
    changed = (before != after).any(1)
    assert changed[0] and not changed[1:].any()


def test_representation_of_a_pool_that_outputs_scores(splits: Splits, data: Data, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = covpool.attach("test_resnet", "lrbp", 3, reduce_to=None, bottleneck=8)
    path = tmp_path / "lrbp.safetensors"
    covpool.save(network, path, class_names=splits.test.classes, preprocessing=preprocessing(AUGMENT))
    assert evaluate([path], splits, data, EvaluationProtocol(classifier="svm")).images == len(splits.test)


def test_an_svm_names_the_classes_without_a_readable_training_image(splits: Splits, data: Data, tmp_path: Path) -> None:
    path, name = checkpoint(tmp_path, splits.test.classes), splits.train.classes[1]
    for image, target in zip(splits.train.paths, splits.train.targets, strict=True):
        if target == 1:
            break_image(image)
    skipping = Data(root=data.root, workers=0, broken="skip")
    with pytest.raises(ValueError, match=f"there is none of {name}: repair its images"):
        evaluate([path], splits, skipping, EvaluationProtocol(classifier="svm", features=tmp_path / "features"))


def test_a_broken_image_is_left_out_or_refused(splits: Splits, data: Data, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, splits.test.classes)
    break_image(splits.test.paths[2])
    with pytest.raises(ValueError, match=str(splits.test.paths[2].name)):
        evaluate([path], splits, data, EvaluationProtocol())
    skipping = Data(root=data.root, workers=0, broken="skip")
    found = evaluate([path], splits, skipping, EvaluationProtocol())
    assert (found.images, found.unread) == (len(splits.test) - 1, 1)


def test_other_classes_are_refused(splits: Splits, data: Data, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has 2 classes and the data has 3"):
        evaluate([checkpoint(tmp_path, ("x", "y"))], splits, data, EvaluationProtocol())
    with pytest.raises(ValueError, match="different classes: 'x' in the checkpoint is 'class0' in the"):
        evaluate([checkpoint(tmp_path, ("x", "y", "z"))], splits, data, EvaluationProtocol())


def test_progress_is_reported(splits: Splits, data: Data, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    protocol = EvaluationProtocol(batch_size=10, on_progress=lambda *step: seen.append(step))
    evaluate([checkpoint(tmp_path, splits.test.classes)], splits, data, protocol)
    assert seen == [("test set, isqrt0.safetensors", 1, 2), ("test set, isqrt0.safetensors", 2, 2)]
