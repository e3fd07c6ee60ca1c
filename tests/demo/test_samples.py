import torch

from covpool.demo._samples import TaskSamples, standardized, with_deltas


def test_deltas_ignore_padding() -> None:
    tokens = torch.randn(2, 5, 3)
    lengths = torch.tensor([5, 3])
    padded = tokens.clone()
    padded[1, 3:] = 1e6
    kept = torch.arange(5) < lengths[:, None]
    assert torch.equal(with_deltas(tokens, lengths)[kept], with_deltas(padded, lengths)[kept])
    middle = with_deltas(tokens, lengths)[0, 2, 3:]
    torch.testing.assert_close(middle, (tokens[0, 3] - tokens[0, 1]) / 2)


def test_standardization_uses_only_kept_positions_of_training_samples() -> None:
    tokens = 3 + 2 * torch.randn(6, 20, 4)
    mask = torch.ones(6, 20, dtype=torch.bool)
    mask[:, 15:] = False
    expected = standardized(tokens, mask, 4)
    seen = expected[:4, :15].flatten(0, 1)
    torch.testing.assert_close(seen.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(seen.std(0), torch.ones(4))
    tokens[4:] *= 100
    tokens[:, 15:] = 1e6
    assert torch.equal(standardized(tokens, mask, 4)[:4, :15], expected[:4, :15])


def test_batches_cover_all_samples_in_order() -> None:
    mask = torch.rand(150, 7) > 0.5
    samples = TaskSamples({"x": torch.randn(150, 7, 2)}, torch.arange(150), mask)
    features, masks = zip(*samples.batches("x"), strict=True)
    assert torch.equal(torch.cat(features), samples.features["x"])
    assert torch.equal(torch.cat([m for m in masks if m is not None]), mask)
    assert samples.select(slice(10, 13)).targets.tolist() == [10, 11, 12]
