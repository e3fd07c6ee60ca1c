"""Pictures kept on the device: who stands in for a broken one, and whether there is room. Batches: test_batches.py."""

import pytest
import torch

from covpool.data import on_device


def test_the_next_readable_picture_stands_in() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        broken = torch.rand(9, generator=generator) < 0.6
        broken[3] = False
        expected = [next((i + k) % 9 for k in range(9) if not broken[(i + k) % 9]) for i in range(9)]
        assert on_device.next_readable(broken).tolist() == expected
    with pytest.raises(ValueError, match="none of the 4 pictures can be read"):
        on_device.next_readable(torch.ones(4, dtype=torch.bool))


def test_pixels_are_packed_in_order() -> None:
    pieces = [torch.arange(6, dtype=torch.uint8).view(2, 3), torch.arange(250, 256, dtype=torch.uint8).view(2, 3)]
    packed = on_device._packed(pieces, torch.device("cpu"))
    assert packed.view(torch.uint8).view(4, 4)[:, :3].tolist() == torch.cat(pieces).tolist()


def test_too_little_room_on_the_device_is_told_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (4 * 2**30, 8 * 2**30))
    on_device._check_room(2**30, torch.device("cuda"))
    with pytest.raises(ValueError, match=r'needs 3.0 GiB .* 4.0 of 8.0 GiB are free on cuda: .* cache = "ram"'):
        on_device._check_room(3 * 2**30, torch.device("cuda"))
