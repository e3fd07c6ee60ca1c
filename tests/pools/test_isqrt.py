import pytest
import torch

from cases import features, hard_features
from covpool import create_pool
from covpool.ops import covariance, unvech, vech
from ops import reference


@pytest.mark.parametrize("prenorm", ["trace", "frobenius"])
@pytest.mark.parametrize("iterations", [1, 2, 5, 10])
@pytest.mark.parametrize("n", [6, 40])
def test_equals_the_exact_spectral_form(n: int, iterations: int, prenorm: str) -> None:
    x = features(2, n, 12)
    pool = create_pool("isqrt", 12, iterations=iterations, prenorm=prenorm)
    expected = [vech(reference.isqrt_spectral(covariance(item), iterations, prenorm)) for item in x]
    torch.testing.assert_close(pool(x), torch.stack(expected), rtol=0, atol=1e-12)


def test_the_papers_default_is_five_iterations_with_the_trace() -> None:
    x = features(2, 40, 12)
    torch.testing.assert_close(create_pool("isqrt", 12)(x), vech(reference.isqrt_literal(x)), rtol=0, atol=1e-12)


def test_many_iterations_give_the_root_of_mpn() -> None:
    x = features(2, 40, 8)
    torch.testing.assert_close(create_pool("isqrt", 8, iterations=18)(x), create_pool("mpn", 8)(x))


def test_one_channel_is_the_standard_deviation() -> None:
    x = features(3, 20, 1)
    for iterations in (1, 5):
        expected = x.std(1, correction=0)
        torch.testing.assert_close(create_pool("isqrt", 1, iterations=iterations)(x), expected)


def test_without_post_compensation_the_scale_is_lost() -> None:
    x = features(2, 40, 8)
    pool = create_pool("isqrt", 8, iterations=18, postcomp=False)
    torch.testing.assert_close(pool(100 * x), pool(x))
    z = unvech(pool(x))
    torch.testing.assert_close((z @ z).diagonal(dim1=-2, dim2=-1).sum(-1), torch.ones(2, dtype=torch.float64))


def test_with_post_compensation_the_scale_is_kept() -> None:
    pool, x = create_pool("isqrt", 8), features(2, 40, 8)
    torch.testing.assert_close(pool(100 * x), 100 * pool(x))


def test_the_batch_norm_variant() -> None:
    x = features(6, 40, 8)
    pool = create_pool("isqrt", 8, postcomp=False, normalize="bn").double()
    assert sum(p.numel() for p in pool.parameters()) == 8 * 9  # weight and bias of d (d + 1) / 2 each
    bare = create_pool("isqrt", 8, postcomp=False)(x)
    z = pool(x)
    expected = (bare - bare.mean(0)) / (bare.var(0, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(z, expected)


def test_gradient_of_the_features() -> None:
    for n in (4, 12):
        assert torch.autograd.gradcheck(create_pool("isqrt", 6), features(1, n, 6).requires_grad_())


@pytest.mark.parametrize(
    "options",
    [
        {"prenorm": prenorm, "postcomp": postcomp, "iterations": iterations}
        for prenorm in ("trace", "frobenius")
        for postcomp in (True, False)
        for iterations in (1, 7)
    ],
)
def test_every_option_is_finite_on_hard_cases(options: dict[str, object]) -> None:
    for x in hard_features().values():
        x.requires_grad_()
        z = create_pool("isqrt", 16, **options)(x)
        (dx,) = torch.autograd.grad(z.sum(), x)
        assert z.isfinite().all() and dx.isfinite().all()


@pytest.mark.parametrize(
    ("option", "error"),
    [({"iterations": 0}, ValueError), ({"iterations": 2.0}, TypeError), ({"prenorm": "tracee"}, ValueError)],
)
def test_wrong_options_are_refused(option: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error, match=f"`{next(iter(option))}` must be .*got"):
        create_pool("isqrt", 4, **option)
