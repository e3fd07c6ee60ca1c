"""Decoded images in the memory of a device."""

import pytest
import torch

from covpool.data.pipeline import _device_images as device_images


def test_the_next_readable_image_replaces_a_broken_one() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        broken = torch.rand(9, generator=generator) < 0.6
        broken[3] = False
        expected = [next((i + k) % 9 for k in range(9) if not broken[(i + k) % 9]) for i in range(9)]
        assert device_images.next_readable(broken).tolist() == expected
    with pytest.raises(ValueError, match="none of the 4 images can be read"):
        device_images.next_readable(torch.ones(4, dtype=torch.bool))


def test_pixels_are_packed_in_order() -> None:
    blocks = [torch.arange(6, dtype=torch.uint8).view(2, 3), torch.arange(250, 256, dtype=torch.uint8).view(2, 3)]
    packed = device_images._pack_pixels(blocks, torch.device("cpu"))
    assert packed.view(torch.uint8).view(4, 4)[:, :3].tolist() == torch.cat(blocks).tolist()


def test_too_little_device_memory_is_an_error_before_copying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (4 * 2**30, 8 * 2**30))
    device_images._check_memory(2**30, torch.device("cuda"))
    with pytest.raises(ValueError, match=r'needs 3.0 GiB .* 4.0 of 8.0 GiB are free on cuda: .* cache = "ram"'):
        device_images._check_memory(3 * 2**30, torch.device("cuda"))
