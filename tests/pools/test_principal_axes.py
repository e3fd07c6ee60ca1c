"""Reductions that start from data, against numpy's principal components."""

import logging

import numpy as np
import pytest
import torch
from torch import Tensor

from covpool import CovpoolError, create_pool
from covpool.pools._reduction import Reduction


def batches(count: int = 3, b: int = 4, c: int = 12, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scale = torch.linspace(0.1, 3, c, dtype=torch.float64)[:, None, None]
    mix = torch.linalg.qr(torch.randn(c, c, generator=generator, dtype=torch.float64))[0]
    x = 5 + scale * torch.randn(count, b, c, 3, 5, generator=generator, dtype=torch.float64)
    return list(torch.einsum("dc,nbchw->nbdhw", mix, x))


def rows(maps: list[Tensor]) -> np.ndarray:
    return torch.cat(maps).permute(0, 2, 3, 1).flatten(0, 2).numpy()


def components(x: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, axes and variances by a singular value decomposition of the centered rows."""
    mean = x.mean(0)
    _, values, axes = np.linalg.svd(x - mean, full_matrices=False)
    axes = axes[:count]
    axes *= np.sign(axes[np.arange(count), np.abs(axes).argmax(1)])[:, None]
    return mean, axes, (values**2 / len(x))[:count]


def test_a_linear_reduction_projects_on_the_principal_axes() -> None:
    maps = batches()
    pool = create_pool("avg", 12, reduce_to=5, reduce_kind="linear").double()
    pool.init_reduction(maps)
    mean, axes, _ = components(rows(maps), 5)
    reduced = pool.reduce[0](maps[0]).permute(0, 2, 3, 1).flatten(0, 2).detach().numpy()
    np.testing.assert_allclose(reduced, (rows(maps[:1]) - mean) @ axes.T, atol=1e-10)


def test_conv_bn_relu_takes_over_the_statistics() -> None:
    maps = batches()
    pool = create_pool("avg", 12, reduce_to=5).double().eval()
    pool.init_reduction(maps)
    mean, axes, variances = components(rows(maps), 5)
    norm = pool.reduce[0].norms[0]
    expected = np.maximum((rows(maps) - mean) @ axes.T / np.sqrt(variances + norm.eps), 0)
    found = torch.cat([pool.reduce[0](x) for x in maps]).permute(0, 2, 3, 1).flatten(0, 2).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert norm.num_batches_tracked == 1 and not pool.training


def test_only_kept_positions_count() -> None:
    maps, generator = batches(), torch.Generator().manual_seed(1)
    masks = [torch.rand(4, 15, generator=generator) < 0.5 for _ in maps]
    pool = create_pool("avg", 12, reduce_to=4, reduce_kind="linear").double()
    poisoned = [torch.where(m.view(4, 1, 3, 5), x, 1e9) for x, m in zip(maps, masks, strict=True)]
    pool.init_reduction(poisoned, masks=masks)
    kept = np.concatenate([x.flatten(2).mT[m].numpy() for x, m in zip(maps, masks, strict=True)])
    _, axes, _ = components(kept, 4)
    np.testing.assert_allclose(pool.reduce[0].convolutions[0].weight.detach().numpy()[..., 0, 0], axes, atol=1e-9)


def test_tokens_and_several_feature_tensors_get_axes_of_their_own() -> None:
    first, second = batches(), batches(c=7, seed=5)
    tokens = [(x.flatten(2).mT, y.flatten(2).mT) for x, y in zip(first, second, strict=True)]
    pool = create_pool("cross_cov", (12, 7), reduce_to=3, reduce_kind="linear").double()
    pool.init_reduction(tokens)
    for i, maps in enumerate((first, second)):
        weight = pool.reduce[i].convolutions[0].weight.detach().numpy()[..., 0, 0]
        np.testing.assert_allclose(weight, components(rows(maps), 3)[1], atol=1e-9)


def test_a_chain_starts_one_convolution_after_another() -> None:
    maps = batches()
    pool = create_pool("avg", 12, reduce_to=(8, 3)).double().eval()
    pool.init_reduction(maps)
    first = create_pool("avg", 12, reduce_to=8).double().eval()
    first.init_reduction(maps)
    middle = [first.reduce[0](x).detach() for x in maps]
    _, axes, _ = components(rows(middle), 3)
    np.testing.assert_allclose(pool.reduce[0].convolutions[1].weight.detach().numpy()[..., 0, 0], axes, atol=1e-8)
    with pytest.raises(CovpoolError, match="reads the batches 2 times"):
        pool.init_reduction(iter(maps))


def test_the_result_does_not_depend_on_how_the_images_are_batched() -> None:
    maps = batches()
    weights = []
    for split in (maps, list(torch.cat(maps).split(5))):
        pool = create_pool("avg", 12, reduce_to=6, reduce_kind="linear")
        pool.init_reduction([x.float() for x in split])
        weights.append(pool.reduce[0].convolutions[0].weight.detach())
    torch.testing.assert_close(*weights, atol=1e-6, rtol=0)


def test_processes_sum_their_moments() -> None:
    maps = batches(4)
    together, alone = (create_pool("avg", 12, reduce_to=6, reduce_kind="linear").double() for _ in range(2))
    together.init_reduction(maps)
    alone.init_reduction(maps[:2], summed=lambda mine: mine + other_half(maps[2:]))
    torch.testing.assert_close(together.reduce[0].convolutions[0].weight, alone.reduce[0].convolutions[0].weight)


def other_half(maps: list[Tensor]) -> Tensor:
    extended = torch.from_numpy(np.pad(rows(maps), ((0, 0), (0, 1)), constant_values=1.0))
    return extended.mT @ extended


def test_state_keys_of_existing_pools_stay() -> None:
    assert set(Reduction(6, 3).state_dict()) == {
        "convolutions.0.weight",
        *(f"norms.0.{name}" for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")),
    }
    assert set(Reduction(6, 3, kind="linear").state_dict()) == {"convolutions.0.weight", "convolutions.0.bias"}


@pytest.mark.parametrize("reduction", [{"reduce_to": 8}, {"reduce_to": 8, "reduce_kind": "linear"}])
def test_a_random_reduction_is_named_once(reduction: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    x, pool = torch.randn(2, 12, 3, 3).double(), create_pool("isqrt", 12, **reduction).double().eval()
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        pool(x)
        pool(x)
    assert len(caplog.records) == 1 and "random weights" in caplog.text


def test_a_trained_or_started_reduction_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.randn(4, 12, 3, 3)
    started, trained, loaded = (create_pool("isqrt", 12, reduce_to=4) for _ in range(3))
    started.init_reduction([x])
    optimizer = torch.optim.SGD(trained.parameters(), 0.1)
    trained(x).square().sum().backward()
    optimizer.step()
    loaded.load_state_dict(trained.state_dict())
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        for pool in (started, trained, loaded):
            pool.eval()(x)
    assert not caplog.records


@pytest.mark.parametrize(
    ("options", "features", "said"),
    [
        ({"reduce_kind": "linear", "reduce_activation": "relu", "reduce_to": 4}, [], "'linear' has none"),
        ({}, [torch.randn(2, 12, 3, 3)], "no reduction to start"),
        ({"reduce_to": 4}, [], "got no batch"),
        ({"reduce_to": 4}, [torch.randn(1, 12, 1, 1)], r"got 1 descriptor"),
        ({"reduce_to": 4}, [torch.full((2, 12, 3, 3), torch.nan)], "not finite"),
        ({"reduce_to": 13}, [torch.randn(2, 12, 3, 3)], "more than the 12 channels"),
    ],
)
def test_mistakes_are_named(options: dict[str, object], features: list[Tensor], said: str) -> None:
    with pytest.raises(CovpoolError, match=said):
        create_pool("cov", 12, **options).init_reduction(features)


def test_a_mistake_leaves_the_pool_in_training() -> None:
    pool = create_pool("cov", 12, reduce_to=4)
    with pytest.raises(CovpoolError, match="got no batch"):
        pool.init_reduction([])
    assert pool.training
