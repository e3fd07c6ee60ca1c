"""The one loop over images: order, padding, crops, flips, precision, selection of rows."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import covpool
from covpool.data.pipeline._batch import Batch
from covpool.engine._infer import compute_scores, infer, infer_logits, select_rows, with_progress
from covpool.kernels import host_memory


def batch(x: Tensor, y: list[int], index: list[int]) -> Batch:
    return Batch(x, torch.tensor(y), torch.tensor(index), torch.zeros(len(y), dtype=torch.bool))


def network() -> nn.Module:
    torch.manual_seed(0)
    return covpool.attach("test_resnet", "isqrt", 4, reduce_to=8)


def test_scores_are_in_the_order_of_the_images_without_padding() -> None:
    """Several processes have batches out of order, with padding."""
    model, x = network(), torch.randn(5, 3, 32, 32)
    found, targets = compute_scores(
        model, [batch(x[[3, 1]], [3, 1], [3, 1]), batch(x[[0, 4, 2, 0]], [0, -1, 2, 3], [0, 4, 2, -1])]
    )
    assert targets.tolist() == [0, 1, 2, 3, -1] and not model.training and not found.requires_grad
    torch.testing.assert_close(found, model(x).detach(), rtol=1e-4, atol=1e-5)


def test_outputs_that_are_not_finite_name_the_image_and_the_module() -> None:
    model = network()
    x = torch.randn(4, 10, 3, 32, 32)
    x[2, 7, 0, 0, 0] = torch.inf
    whole = batch(x, [0, 1, 2, 3], [5, 6, 7, 8])
    with pytest.raises(ValueError, match=r"NaN or inf for image 7: NaN or inf first appeared in the input of"):
        compute_scores(model, [whole])
    named = replace(whole, paths=[Path(f"{i}.png") for i in range(9)])
    with pytest.raises(ValueError, match=r"NaN or inf for 7.png: "):
        compute_scores(model, [named])
    for hidden in ({"index": torch.tensor([5, 6, -1, 8])}, {"broken": torch.tensor([False, False, True, False])}):
        compute_scores(model, [replace(whole, **hidden)])  # padding, and an image that could not be read


def test_flip_and_ten_crops_are_means_of_logits() -> None:
    model, x = network().eval(), torch.randn(3, 10, 3, 32, 32)
    found, _ = compute_scores(model, [batch(x, [0, 1, 2], [0, 1, 2])], flip=True)
    with torch.no_grad():
        every = [model(torch.stack([crop, crop.flip(-1)])).mean(0) for image in x for crop in image]
    torch.testing.assert_close(found, torch.stack(every).view(3, 10, 4).mean(1), rtol=1e-4, atol=1e-5)


def test_batches_run_in_evaluation_mode_without_gradients() -> None:
    model, x = network().train(), torch.randn(2, 3, 32, 32)
    (found,) = infer(model, [batch(x, [0, 1], [0, 1])])
    assert not model.training and not found.outputs[0].requires_grad and found.batch.x is x
    assert torch.is_grad_enabled(), "the caller keeps its gradients"
    assert torch.equal(found.outputs[0], model(x.contiguous(memory_format=torch.channels_last)))


def test_memory_is_kept_for_the_next_layer_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    users, x = host_memory._users, torch.randn(2, 3, 8, 8)
    for setting, expected in (("", 1), ("GLIBC_TUNABLES", 0), ("MALLOC_MMAP_MAX_", 0)):
        if setting:
            monkeypatch.setenv(setting, "")
        within = [users.count for _ in infer(nn.Conv2d(3, 4, 1), [batch(x, [0, 1], [0, 1])] * 2)]
        assert within == [expected] * 2 and users.count == 0
        monkeypatch.undo()


def test_flipped_images_are_a_second_output() -> None:
    x = torch.randn(2, 3, 4, 4)
    (found,) = infer(nn.Identity(), [batch(x, [0, 1], [0, 1])], flip=True)
    assert torch.equal(found.outputs[0], x) and torch.equal(found.outputs[1], x.flip(-1))


def test_precision_is_that_of_autocast() -> None:
    model, one = nn.Sequential(nn.Flatten(), nn.Linear(48, 5)), batch(torch.randn(2, 3, 4, 4), [0, 1], [0, 1])
    (found,) = infer(model, [one], precision="bf16")
    assert found.outputs[0].dtype == torch.bfloat16
    ((_, logits),) = infer_logits(model, [one], precision="bf16")
    assert torch.equal(logits, found.outputs[0].float())


def test_rows_are_selected_and_empty_batches_left_out() -> None:
    x = torch.randn(3, 3, 4, 4)
    batches = [batch(x, [0, -1, 2], [5, 6, 7]), batch(x, [-1, -1, -1], [8, 9, 10])]
    (found,) = select_rows(batches, lambda one: one.y >= 0)
    assert torch.equal(found.x, x[[0, 2]]) and found.y.tolist() == [0, 2] and found.index.tolist() == [5, 7]


def test_progress_is_reported_after_each_batch() -> None:
    batches = [batch(torch.zeros(1, 3, 4, 4), [0], [i]) for i in range(2)]
    seen: list[tuple[str, int, int]] = []
    for _ in with_progress(batches, "test", lambda *event: seen.append(event)):
        seen.append(("batch", 0, 0))
    assert seen == [("batch", 0, 0), ("test", 1, 2), ("batch", 0, 0), ("test", 2, 2)]
