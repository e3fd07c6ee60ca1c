import torch

from covpool.data._settings import Augment
from covpool.engine.training._mixing import make_mix


def test_no_mixing() -> None:
    assert make_mix(Augment(), 3) is None


def test_images_and_targets_are_mixed_alike() -> None:
    """Each image is constant, with the number of its class, so that pixels show the share of each class."""
    y = torch.arange(4)
    x = y.float().view(4, 1, 1, 1).expand(4, 3, 8, 8)
    torch.manual_seed(0)
    for augment in (Augment(mixup=1.0), Augment(cutmix=1.0), Augment(mixup=1.0, cutmix=1.0)):
        mix = make_mix(augment, 4)
        assert mix is not None
        for _ in range(5):
            images, shares = mix(x.clone(), y)
            torch.testing.assert_close(shares.sum(1), torch.ones(4))
            torch.testing.assert_close(images.mean((1, 2, 3)), shares @ y.float())
