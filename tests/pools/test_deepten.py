"""Deep-TEN against direct computation, in float64."""

import pytest
import torch
from torch import Tensor

from cases import features
from covpool.pools import TextureEncodingPool, VladPool


def made(c: int = 4, clusters: int = 3, **options: object) -> TextureEncodingPool:
    torch.manual_seed(0)
    pool = TextureEncodingPool(c, clusters=clusters, **options).double()
    with torch.no_grad():
        pool.codewords.copy_(torch.randn_like(pool.codewords))
    return pool


def encoding(pool: TextureEncodingPool, x: Tensor) -> Tensor:
    """Compute e (b, k, c) from explicit residuals."""
    r = x.unsqueeze(2) - pool.codewords
    a = torch.softmax(-pool.smoothing * r.square().sum(-1), -1)
    return (a.unsqueeze(-1) * r).sum(1)


def unit(e: Tensor) -> Tensor:
    return e.flatten(1) / e.flatten(1).norm(dim=1, keepdim=True)


def test_equals_the_formula_with_its_gradients() -> None:
    pool, x = made(), features(2, 9, 4).requires_grad_()
    torch.testing.assert_close(pool(x), unit(encoding(pool, x)))
    inputs, g = (x, *pool.parameters()), features(2, 1, 12, seed=1)[:, 0]
    found = torch.autograd.grad((pool(x) * g).sum(), inputs)
    expected = torch.autograd.grad((unit(encoding(pool, x)) * g).sum(), inputs)
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e)


def test_no_smoothing_gives_every_codeword_the_same_share() -> None:
    pool, x = made(), features(2, 9, 4)
    with torch.no_grad():
        pool.smoothing.zero_()
    torch.testing.assert_close(pool(x), unit((x.sum(1, keepdim=True) - 9 * pool.codewords) / 3))


def test_one_smoothing_factor_is_the_aggregation_of_netvlad() -> None:
    pool, x, alpha = made(), features(2, 9, 4), 0.7
    vlad = VladPool(4, clusters=3, version="v2", pre_l2=False).double()
    with torch.no_grad():
        pool.smoothing.fill_(alpha)
        vlad.centers.copy_(pool.codewords)
        vlad.assign_weight.copy_(2 * alpha * pool.codewords)
        vlad.assign_bias.copy_(-alpha * pool.codewords.square().sum(-1))
    words = pool(x).unflatten(1, (3, 4))
    torch.testing.assert_close(vlad(x), unit(words / words.norm(dim=-1, keepdim=True)))


def test_one_codeword_sums_the_residuals() -> None:
    pool, x = made(clusters=1), features(2, 9, 4)
    torch.testing.assert_close(pool(x), unit((x - pool.codewords).sum(1)))


def test_the_nearest_codeword_gets_most() -> None:
    """The factor is positive here; the released PyTorch code stores its negative."""
    pool = made()
    with torch.no_grad():
        pool.smoothing.fill_(100)
    x = (pool.codewords[1].detach() + 0.01).expand(1, 9, 4)
    assert pool(x).unflatten(1, (3, 4))[0, 1].norm() > 0.999


def test_a_common_offset_does_not_reduce_accuracy() -> None:
    pool, x = made(16, 8).float(), features(2, 30, 16, dtype=torch.float32) + 1e3
    with torch.no_grad():
        pool.codewords += 1e3
    found = pool(x)
    assert (found - unit(encoding(pool.double(), x.double()))).abs().max() < 2e-6


def test_published_initialization_and_size() -> None:
    torch.manual_seed(0)
    pool = TextureEncodingPool(2048, reduce_to=128)
    assert pool.out_features == 4096
    bound = (32 * 128) ** -0.5
    assert 0.98 * bound < pool.codewords.abs().max() <= bound
    assert 0 <= pool.smoothing.min() < 0.2 and 0.8 < pool.smoothing.max() <= 1
    assert pool.codewords.numel() + pool.smoothing.numel() == 32 * 128 + 32
    head = sum(p.numel() for p in pool.reduce.parameters())
    assert head == 262_272 + 256 - 128  # the convolution's bias is in the batch norm


def test_init_from_data() -> None:
    pool, x, centers = made(), features(1, 50, 4)[0], features(1, 3, 4, seed=1)[0]
    pool.init_from(x, centers=centers)
    torch.testing.assert_close(pool.codewords.detach(), centers)
    nearest = torch.cdist(x, centers).square().sort(-1).values
    gap = (nearest[:, 1] - nearest[:, 0]).mean()
    torch.testing.assert_close(torch.exp(-pool.smoothing.detach() * gap), torch.full((3,), 0.01, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"`centers` must have shape \(3, 4\)"):
        pool.init_from(x, centers=centers[:2])
