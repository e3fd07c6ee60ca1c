import torch
from torch import Tensor, nn

import covpool
from covpool.data.pipeline._batch import Batch
from covpool.engine._infer import scores


def batch(x: Tensor, y: list[int], index: list[int]) -> Batch:
    return Batch(x, torch.tensor(y), torch.tensor(index), torch.zeros(len(y), dtype=torch.bool))


def network() -> nn.Module:
    torch.manual_seed(0)
    return covpool.attach("test_resnet", "isqrt", 4, reduce_to=8)


def test_order_of_the_images_and_padding() -> None:
    """Batches that come out of order, with entries that only fill up, as several processes have them."""
    model, x = network(), torch.randn(5, 3, 32, 32)
    found, targets = scores(
        model, [batch(x[[3, 1]], [3, 1], [3, 1]), batch(x[[0, 4, 2, 0]], [0, -1, 2, 3], [0, 4, 2, -1])]
    )
    assert targets.tolist() == [0, 1, 2, 3, -1] and not model.training and not found.requires_grad
    torch.testing.assert_close(found, model(x).detach(), rtol=1e-4, atol=1e-5)


def test_flip_and_ten_crops_are_means_of_logits() -> None:
    model, x = network().eval(), torch.randn(3, 10, 3, 32, 32)
    found, _ = scores(model, [batch(x, [0, 1, 2], [0, 1, 2])], flip=True)
    with torch.no_grad():
        every = [model(torch.stack([crop, crop.flip(-1)])).mean(0) for image in x for crop in image]
    torch.testing.assert_close(found, torch.stack(every).view(3, 10, 4).mean(1), rtol=1e-4, atol=1e-5)
