import pytest
import torch

from covpool.demo._encoders import POOLS, candidates, mean_and_deviation, on_kernel, pooled
from covpool.demo._samples import TaskSamples


@pytest.fixture
def sequences() -> TaskSamples:
    lengths = torch.randint(5, 12, (30,))
    mask = torch.arange(12) < lengths[:, None]
    return TaskSamples({"x": torch.randn(30, 12, 6)}, torch.arange(30) % 2, mask)


@pytest.mark.parametrize("width", [0, 3])
@pytest.mark.parametrize("method", POOLS)
def test_pools_ignore_padding(sequences: TaskSamples, method: str, width: int) -> None:
    features = sequences.features["x"].clone()
    features[~(sequences.mask if sequences.mask is not None else torch.ones(()))] = 1e3
    padded = TaskSamples({"x": features}, sequences.targets, sequences.mask)
    expected = pooled(method, "x", width, sequences)(sequences)
    torch.testing.assert_close(pooled(method, "x", width, padded)(padded), expected, atol=1e-4, rtol=1e-4)


def test_mean_and_deviation_of_kept_positions(sequences: TaskSamples) -> None:
    assert sequences.mask is not None
    kept = sequences.features["x"][3][sequences.mask[3]]
    expected = torch.cat((kept.mean(0), kept.std(0, correction=0)))
    torch.testing.assert_close(mean_and_deviation("x")(sequences)[3], expected)


def test_inner_products_of_kernel_coordinates_are_the_kernel(sequences: TaskSamples) -> None:
    mean = pooled("avg", "x", 0, sequences)
    z, means = on_kernel(mean, 0.5, sequences)(sequences), mean(sequences)
    squares = torch.cdist(means, means).square()
    torch.testing.assert_close(z @ z.mT, (-squares / (0.5 * squares.median())).exp(), atol=1e-4, rtol=0)


def test_settings_of_second_order_pools_fit_the_channels() -> None:
    maps = TaskSamples({"few": torch.randn(8, 16, 4, 4), "many": torch.randn(8, 200, 2, 2)}, torch.arange(8) % 2)
    assert [setting for setting, _ in candidates("isqrt", maps, (0, 8, 64))] == [
        *("few, 16 channels", "few, 8 channels"),
        *("many, 8 channels", "many, 64 channels"),
    ]
    assert [setting for setting, _ in candidates("avg", maps, (0, 8, 64))] == ["few", "many"]
