import pytest
import torch
from torch import Tensor, nn

from cases import features
from covpool import create_pool
from covpool.pools._normalize import make_normalization


def vectors(b: int = 4, d: int = 10) -> Tensor:
    return features(b, 1, d).squeeze(1)


def test_an_empty_chain_is_the_identity() -> None:
    z = vectors()
    assert make_normalization(None, 10)(z) is z


def test_l2_gives_unit_length_at_any_scale_and_keeps_zero() -> None:
    l2, z = make_normalization("l2", 10), vectors()
    expected = z / torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    for scale in (1e-200, 1.0, 1e200):
        torch.testing.assert_close(l2(scale * z), expected)
    assert (l2(torch.zeros(2, 10)) == 0).all()


def test_l2_has_the_right_gradient() -> None:
    assert torch.autograd.gradcheck(make_normalization("l2", 10), vectors().requires_grad_())


def test_epn_is_the_signed_root_scaled_to_unit_length() -> None:
    z = vectors()
    root = z.sign() * z.abs().sqrt()
    expected = root / torch.linalg.vector_norm(root, dim=-1, keepdim=True)
    torch.testing.assert_close(make_normalization("epn", 10)(z), expected)


def test_bn_is_batch_norm_over_the_vector() -> None:
    z, expected = vectors(), nn.BatchNorm1d(10).double()
    torch.testing.assert_close(make_normalization("bn", 10).double()(z), expected(z))


def test_a_chain_runs_in_order() -> None:
    z, chain = vectors(), make_normalization(("epn", "bn"), 10).double()
    root = make_normalization("epn", 10)(z)
    torch.testing.assert_close(chain(z), nn.BatchNorm1d(10).double()(root))


@pytest.mark.parametrize("normalize", ["epn", "l2", "bn", ("epn", "bn")])
def test_a_pool_with_normalization_is_finite_on_zero_maps(normalize: object) -> None:
    pool = create_pool("cov", 4, normalize=normalize)
    x = torch.zeros(2, 4, 3, 3, requires_grad=True)
    z = pool(x)
    z.sum().backward()
    assert z.isfinite().all() and x.grad.isfinite().all()


def test_an_unknown_normalization_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`normalize` must be one of .*; got 'bnn'.*did you mean 'bn'"):
        create_pool("cov", 4, normalize=("epn", "bnn"))
