import numpy
import torch

from cases import features
from covpool import create_pool


def test_equals_the_upper_triangle_of_numpys_biased_covariance() -> None:
    x = features(3, 20, 7)
    rows, columns = numpy.triu_indices(7)
    expected = [numpy.cov(item.numpy().T, bias=True)[rows, columns] for item in x]
    torch.testing.assert_close(create_pool("cov", 7)(x), torch.from_numpy(numpy.stack(expected)))


def test_weights_equal_numpys() -> None:
    x, w = features(1, 20, 5), features(1, 20, 1).abs().squeeze(-1)
    rows, columns = numpy.triu_indices(5)
    expected = numpy.cov(x[0].numpy().T, aweights=w[0].numpy(), ddof=0)[rows, columns]
    torch.testing.assert_close(create_pool("cov", 5)(x, weights=w)[0], torch.from_numpy(expected))


def test_a_shift_has_no_effect_and_scale_is_squared() -> None:
    pool, x = create_pool("cov", 6), features(2, 15, 6)
    torch.testing.assert_close(pool(x + features(1, 1, 6, seed=1)), pool(x))
    torch.testing.assert_close(pool(3 * x), 9 * pool(x))


def test_gradient_sums_to_zero_over_positions() -> None:
    x = features(2, 15, 6).requires_grad_()
    z = create_pool("cov", 6)(x)
    direction = torch.randn_like(z)
    (dx,) = torch.autograd.grad((z * direction).sum(), x)
    torch.testing.assert_close(dx.sum(1), torch.zeros(2, 6, dtype=torch.float64), rtol=0, atol=1e-13)
    torch.testing.assert_close((dx * x).sum(), 2 * (z * direction).sum())  # Euler's theorem for degree two


def test_a_single_position_gives_zero_with_zero_gradient() -> None:
    x = features(2, 1, 6).requires_grad_()
    z = create_pool("cov", 6)(x)
    (dx,) = torch.autograd.grad(z.sum(), x)
    assert (z == 0).all() and (dx == 0).all()


def test_two_opposite_positions_give_the_outer_product() -> None:
    v = features(1, 1, 4)
    z = create_pool("cov", 4)(torch.cat((v, -v), 1))
    rows, columns = torch.triu_indices(4, 4)
    torch.testing.assert_close(z[0], torch.outer(v[0, 0], v[0, 0])[rows, columns])
