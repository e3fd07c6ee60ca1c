"""Networks that embed images."""

from pathlib import Path

import pytest
import torch

import covpool
from covpool.data import Augment, Data, label_images
from covpool.data.pipeline import EvalBatches
from covpool.studies.embed import Embedder, FrozenBackbone, start_embedder
from trees import make_folder

FROZEN = FrozenBackbone(backbone="test_resnet", width=8, size=96, pretrained=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "data", classes=2, per_class=3)


def batches(root: Path, augment: Augment, **data: object) -> EvalBatches:
    return EvalBatches(label_images(root), augment, Data(workers=0, **data), batch_size=5)


@pytest.mark.parametrize("name", covpool.list_pools())
def test_every_pool_starts_from_images(name: str, root: Path) -> None:
    settings = FROZEN.changed(pool=name, pool_options={"bottleneck": 4} if name == "lrbp" else {})
    started = start_embedder(settings, lambda augment: batches(root, augment), device="cpu")
    found = started.vectors().values
    assert found.shape == (12, started.length) and found.isfinite().all()
    torch.testing.assert_close(found.norm(dim=1), torch.ones(12))
    again = started.embedder.embed(batches(root, started.embedder.augment), 12)
    assert again.index.tolist() == list(range(12))
    assert (again.values * found).sum(1).min() > 0.9  # mixtures fitted to so few descriptors amplify rounding


def test_the_reduction_is_a_pca(root: Path) -> None:
    started = start_embedder(FROZEN, lambda augment: batches(root, augment), device="cpu")
    descriptors = started.embedder.network.pool.descriptors(started.maps.features)
    covariance = descriptors.T.cov()
    assert descriptors.mean(0).abs().max() < 1e-4 * covariance.diagonal().max().sqrt()
    off = covariance - covariance.diagonal().diag()
    assert off.abs().max() < 1e-3 * covariance.diagonal().max()


def test_vectors_keep_their_length_if_asked(root: Path) -> None:
    started = start_embedder(FROZEN, lambda augment: batches(root, augment), device="cpu", unit_length=False)
    lengths = started.vectors().values.norm(dim=1)
    assert (lengths - 1).abs().max() > 1e-3


def test_first_order_pools_see_all_channels(root: Path) -> None:
    started = start_embedder(FROZEN.changed(pool="avg"), lambda augment: batches(root, augment), device="cpu")
    assert started.length == started.maps.features.shape[1]
    expected = torch.nn.functional.normalize(started.maps.features.mean((2, 3)))
    torch.testing.assert_close(started.vectors().values, expected)


def test_kernel_sees_all_channels_and_named_options_come_first(root: Path) -> None:
    kernel = FROZEN.changed(pool="kernel", pool_options={"size": 64})
    started = start_embedder(kernel, lambda augment: batches(root, augment), device="cpu")
    assert started.length == 1 + started.maps.features.shape[1] + 3 * 64
    narrow = FROZEN.changed(pool_options={"reduce_to": 4})
    assert start_embedder(narrow, lambda augment: batches(root, augment), device="cpu").length == 4 * 5 // 2


def test_a_checkpoint_gives_what_its_classifier_gets(root: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = covpool.attach("test_resnet", "isqrt", 3, reduce_to=8).eval()
    covpool.save(network, tmp_path / "model.safetensors", preprocessing={"size": 32, "resize": [36]})
    embedder = Embedder.read(tmp_path / "model.safetensors", "cpu", unit_length=False)
    assert embedder.augment.resize == (36,)
    made = batches(root, embedder.augment)
    x = torch.cat([batch.x for batch in made])
    torch.testing.assert_close(network.classifier(embedder.embed(made, 12).values), network(x))
