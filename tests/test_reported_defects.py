"""Defects that users of other implementations of these methods reported; each has a test of its own here."""

import warnings

import pytest
import scipy.linalg
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import covpool
from cases import features, hard_features
from covpool import ops

SECOND_ORDER = ("cov", "isqrt", "mpn", "gaussian", "svpn", "improved_bcnn")


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation makes, and the order of matrices that are decomposed."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers, self.order = 0, 0

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
        found = operation(*arguments, **(options or {}))
        for tensor in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(tensor, Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        if "eigh" in operation.__name__ or "svd" in operation.__name__:
            self.order = max(self.order, min(arguments[0].shape[-2:]))
        return found


def gradient(f: object, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    z = f(x)  # type: ignore[operator]
    return torch.autograd.grad((z * torch.linspace(-1, 1, z.numel(), dtype=z.dtype).view_as(z)).sum(), x)[0]


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_a_large_map_needs_no_matrix_of_positions_by_positions(name: str) -> None:
    x = features(1, 4000, 8, dtype=torch.float32)
    with Largest() as seen:
        gradient(covpool.create_pool(name, 8, layout="tokens"), x)
    assert seen.numbers < 4000 * 4000 / 10


@pytest.mark.parametrize("name", SECOND_ORDER)
@pytest.mark.parametrize("case", ["zero", "all_constant", "rank_one", "dead_channels"])
def test_zero_and_repeated_eigenvalues_give_no_nan(name: str, case: str) -> None:
    pool = covpool.create_pool(name, 16, layout="tokens")
    assert gradient(pool, hard_features()[case]).isfinite().all()


def test_a_network_without_a_connection_needs_no_download() -> None:
    """Weights are files that the user names; nothing is fetched unless `pretrained` asks for it."""
    network = covpool.attach("test_resnet", "isqrt", 3)
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 3)


def test_training_from_scratch_and_fine_tuning_are_separate_recipes() -> None:
    from covpool.recipe import read_recipe

    fine, scratch = (
        read_recipe(name, ["data.root=birds"]) for name in ("finetune-paper", "imagenet-resnet50_isqrt_32k")
    )
    assert fine.init.pretrained or fine.init.weights
    assert not scratch.init.pretrained and not scratch.init.weights
    assert fine.optimizer.lr < scratch.optimizer.lr and fine.optimizer.head_factor > 1


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_no_function_is_called_that_torch_will_remove(name: str) -> None:
    """Codes for old versions of torch stop working; tests/test_constraints.py checks the versions that are tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient(covpool.create_pool(name, 6, layout="tokens"), features(2, 9, 6, dtype=torch.float32))


def assert_pooled_like_tokens(name: str, places: tuple[int, ...]) -> None:
    x = features(2, 24, 6)
    tokens, first = (covpool.create_pool(name, 6, layout=kind).double() for kind in ("tokens", "channels_first"))
    first.load_state_dict(tokens.state_dict())
    torch.testing.assert_close(first(x.mT.unflatten(-1, places)), tokens(x), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_sequences_are_pooled_like_images(name: str) -> None:
    for places in ((24,), (4, 6)):
        assert_pooled_like_tokens(name, places)


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_videos_are_pooled_like_images(name: str) -> None:
    assert_pooled_like_tokens(name, (2, 3, 4))


@pytest.mark.parametrize("backbone", ["test_resnet", "test_vit", "test_convnext", "test_efficientnet"])
def test_backbones_of_other_families_are_pooled(backbone: str) -> None:
    network = covpool.attach(backbone, "isqrt", 3, reduce_to=8).eval()
    size = network.input_settings.size
    assert network(torch.randn(2, 3, size, size)).isfinite().all()


def test_the_square_root_of_a_matrix_is_an_operation() -> None:
    a = features(1, 20, 5)
    a = a.mT @ a
    for root in (ops.sqrtm_newton_schulz(a, iterations=20), ops.powm_eigh(a, 0.5)):
        expected = torch.from_numpy(scipy.linalg.sqrtm(a[0].numpy()))
        torch.testing.assert_close(root[0], expected, rtol=1e-6, atol=1e-8)


def test_forward_is_features_then_pool_then_classifier() -> None:
    network, x = covpool.attach("test_resnet", "isqrt", 3, reduce_to=8).eval(), torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(network(x), network.classifier(network.pool(network.features(x))))


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_few_iterations_and_asymmetric_gradients_are_right(iterations: int) -> None:
    """One iteration, and a gradient from above that is not symmetric, were wrong in hand-made backward passes."""
    a = features(1, 9, 4)
    a = (a.mT @ a).requires_grad_()
    weights = features(1, 4, 4, seed=1)

    def asymmetric(a: Tensor) -> Tensor:
        return ops.sqrtm_newton_schulz((a + a.mT) / 2, iterations=iterations) * weights

    assert torch.autograd.gradcheck(asymmetric, (a,))


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_the_largest_half_precision_values_do_not_overflow(name: str) -> None:
    x = hard_features()["largest_half"].half()
    pool = covpool.create_pool(name, 16, layout="tokens")
    assert pool(x).isfinite().all() and gradient(pool, x).isfinite().all()


@pytest.mark.parametrize("name", ["mpn", "gaussian"])
def test_a_decomposition_is_of_the_smaller_side(name: str) -> None:
    """Fewer positions than channels: the matrix of positions is decomposed, which is what makes it fast."""
    pool, x = covpool.create_pool(name, 64, layout="tokens"), features(1, 9, 64, dtype=torch.float32)
    with Largest() as seen:
        pool(x)
    assert 0 < seen.order <= 10


def test_an_eigen_decomposition_compiles() -> None:
    pool, x = covpool.create_pool("mpn", 6, layout="tokens"), features(2, 9, 6, dtype=torch.float32)
    torch._dynamo.reset()
    compiled = torch.compile(pool, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), pool(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_padding_of_a_sequence_does_not_count(name: str) -> None:
    x, lengths = features(2, 12, 6), (12, 7)
    mask = torch.arange(12)[None] < torch.tensor(lengths)[:, None]
    pool = covpool.create_pool(name, 6, layout="tokens").double().eval()
    z = pool(x.masked_fill(~mask[..., None], torch.nan), mask=mask)
    expected = torch.cat([pool(item[None, :length]) for item, length in zip(x, lengths, strict=True)])
    torch.testing.assert_close(z, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", covpool.list_pools())
def test_every_tensor_of_a_pool_moves_with_it(name: str) -> None:
    pool = covpool.create_pool(name, 8, reduce_to=4).to("meta")
    tensors = [*pool.parameters(), *pool.buffers()]
    tensors += [value for module in pool.modules() for value in vars(module).values() if isinstance(value, Tensor)]
    assert all(tensor.is_meta for tensor in tensors)


def test_the_covariance_of_two_streams_is_a_pool() -> None:
    x, y = features(2, 9, 4), features(2, 9, 3, seed=1)
    found = ops.cross_covariance(x, y)
    centred = (x - x.mean(1, keepdim=True)).mT @ (y - y.mean(1, keepdim=True)) / 9
    torch.testing.assert_close(found, centred)
