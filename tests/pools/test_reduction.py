import math

import pytest
import torch
from torch import nn

from cases import features
from covpool import create_pool
from covpool.pools._reduction import Reduction


def maps(b: int, c: int, h: int, w: int) -> torch.Tensor:
    return features(b, h * w, c).mT.unflatten(-1, (h, w)).contiguous()


def test_without_widths_it_is_the_identity() -> None:
    x, reduction = maps(2, 6, 3, 3), Reduction(6, None)
    assert reduction(x) is x
    assert reduction.out_features == 6 and not list(reduction.parameters())


@pytest.mark.parametrize("training", [False, True])
def test_equals_convolution_batch_norm_relu(training: bool) -> None:
    reduction = Reduction(6, (5, 3)).double().train(training)
    blocks: list[nn.Module] = []
    for convolution, norm in zip(reduction.convolutions, reduction.norms, strict=True):
        plain = nn.Conv2d(convolution.in_channels, convolution.out_channels, 1, bias=False).double()
        plain.load_state_dict(convolution.state_dict())
        blocks += [plain, nn.BatchNorm2d(norm.num_features).double(), nn.ReLU()]
    x = maps(4, 6, 3, 3)
    torch.testing.assert_close(reduction(x), nn.Sequential(*blocks).train(training)(x))


def test_parameters_are_those_of_the_paper() -> None:
    def count(channels: int, reduce_to: int | tuple[int, ...]) -> int:
        return sum(p.numel() for p in Reduction(channels, reduce_to).parameters())

    assert count(2048, 256) == 2048 * 256 + 2 * 256
    assert count(2048, (512, 128)) == 2048 * 512 + 2 * 512 + 512 * 128 + 2 * 128


def test_initial_weights() -> None:
    torch.manual_seed(0)
    reduction = Reduction(256, 128)
    weight, norm = reduction.convolutions[0].weight, reduction.norms[0]
    assert math.isclose(weight.std().item(), (2 / 128) ** 0.5, rel_tol=0.02)  # kaiming, fan out
    assert (norm.weight == 1).all() and (norm.bias == 0).all()


@pytest.mark.parametrize("chain", [3, (5, 3)])
def test_identity_weights_give_the_covariance_of_a_channel_subset(chain: int | tuple[int, ...]) -> None:
    pool = create_pool("cov", 8, reduce_to=chain).double().eval()
    for convolution, norm in zip(pool.reduce[0].convolutions, pool.reduce[0].norms, strict=True):
        nn.init.eye_(convolution.weight.squeeze(-1).squeeze(-1))
        norm.eps = 0.0
    x = maps(2, 8, 4, 5).relu()
    torch.testing.assert_close(pool(x), create_pool("cov", 3)(x[:, :3]))


def test_in_training_running_statistics_ignore_masked_positions() -> None:
    x = maps(2, 6, 4, 4)
    mask = torch.rand(2, 4, 4) < 0.6
    masked, plain = Reduction(6, 4).double(), Reduction(6, 4).double()
    plain.load_state_dict(masked.state_dict())
    masked(x, mask.flatten(1))
    plain(x.movedim(1, -1)[mask].T[None, :, :, None])
    for ours, theirs in zip(masked.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_in_evaluation_a_mask_uses_the_running_statistics_unchanged() -> None:
    x, reduction = maps(2, 6, 4, 4), Reduction(6, 4).double().eval()
    before = [b.clone() for b in reduction.buffers()]
    mask = torch.rand(2, 16) < 0.6
    z = reduction(x, mask)
    torch.testing.assert_close(z.flatten(2).mT[mask], reduction(x).flatten(2).mT[mask])
    for ours, theirs in zip(reduction.buffers(), before, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize(("width", "error"), [(0, ValueError), ((4, -1), ValueError), ((4, 2.0), TypeError)])
def test_widths_must_be_positive_integers(width: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="`reduce_to` must be a positive integer; got"):
        Reduction(8, width)


def test_relu6_replaces_relu() -> None:
    pool = create_pool("avg", 3, reduce_to=3, reduce_activation="relu6").eval()
    nn.init.eye_(pool.reduce[0].convolutions[0].weight.squeeze(-1).squeeze(-1))
    pool.reduce[0].norms[0].eps = 0.0
    x = torch.tensor([-1.0, 2.0, 50.0])[None, :, None, None]
    assert pool(x).tolist() == [[0.0, 2.0, 6.0]]
    with pytest.raises(ValueError, match="`reduce_activation` must be one of"):
        create_pool("avg", 3, reduce_activation="gelu")
