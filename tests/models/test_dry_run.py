import copy

import pytest
import torch
from torch import Tensor, nn

from covpool.models._dry_run import dry_run, observe, share, without_memory


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.Sequential(nn.MaxPool2d(2)))


def test_a_shared_copy_has_the_same_tensors_and_modules_of_its_own() -> None:
    model = network()
    copied = share(model)
    for (name, tensor), other in zip(
        model.state_dict(keep_vars=True).items(), copied.state_dict(keep_vars=True).values(), strict=True
    ):
        assert tensor is other, name
    copied[0].stride = (1, 1)
    assert model[0].stride == (2, 2)


def test_a_copy_without_memory_is_on_the_meta_device() -> None:
    model = network()
    bare = without_memory(model)
    assert {t.device.type for t in bare.state_dict().values()} == {"meta"}
    assert {t.device.type for t in model.state_dict().values()} == {"cpu"}
    assert all(isinstance(p, nn.Parameter) for p in bare.parameters())


class NeedsValues(nn.Module):
    """Depends on the numbers in the image, which the meta device does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) + (1 if x.sum().item() > 0 else 0)


def test_a_model_that_needs_values_is_run_itself_and_left_unchanged() -> None:
    model = NeedsValues().train()
    before = copy.deepcopy(model.state_dict())
    seen = observe(model, (3, 8, 8))
    assert seen.outputs == ((1, 3, 8, 8),)
    assert model.training and model.norm.training
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_an_error_of_the_model_comes_through() -> None:
    with pytest.raises(RuntimeError):
        dry_run(network(), (4, 8, 8), lambda model, x: model(x))
    with torch.device("meta"), pytest.raises(RuntimeError):
        dry_run(network(), (4, 8, 8), lambda model, x: model(x))


@pytest.mark.parametrize("model", [nn.BatchNorm2d(4), nn.Sequential(nn.Flatten(), nn.BatchNorm2d(3))])
def test_a_batch_norm_that_does_not_fit_is_an_error(model: nn.Module) -> None:
    for error_of_torch in (model, lambda x: observe(model, (3, 8, 8))):
        with pytest.raises((RuntimeError, ValueError)):
            error_of_torch(torch.zeros(2, 3, 8, 8))


def test_activations_and_norms_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    activations = (nn.ReLU(inplace=True), nn.ReLU6(), nn.Hardswish(), nn.Hardsigmoid(), nn.GELU())
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), *activations)
    with monkeypatch.context() as patch:
        for name in ("batch_norm", "relu", "relu6", "hardtanh", "hardswish", "hardsigmoid", "gelu"):
            patch.delattr(nn.functional, name)
        seen = observe(model, (3, 8, 8), values=False)
    assert seen.outputs == ((1, 8, 6, 6),) and len(seen.calls) == 7
    assert model(torch.zeros(2, 3, 8, 8)).shape == (2, 8, 6, 6)


def test_observation_of_calls() -> None:
    seen = observe(network(), (3, 16, 24))
    assert seen.outputs == ((1, 8, 4, 6),)
    assert seen.called == {"0", "1", "2", "2.0"}
    assert [(c.name, c.leaf, c.shrinks, c.positions) for c in seen.calls] == [
        ("0", True, True, 96),
        ("1", True, False, 96),
        ("2.0", True, True, 24),
        ("2", False, True, 24),
    ]
