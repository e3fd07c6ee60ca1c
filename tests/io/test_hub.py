"""Addresses on the Hugging Face Hub; whole round trips are in tests/report/test_card.py."""

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from covpool import CovpoolError
from covpool.io._hub import download


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The requests to the hub, which get a path as their answer."""
    requests: list[Any] = []

    def answer(repository: str, name: str, *, revision: str | None) -> str:
        requests.append((repository, revision))
        return f"/cache/{name}"

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", answer)
    return requests


def test_an_address_names_a_repository_and_perhaps_a_revision(asked: list[Any]) -> None:
    assert download("hf://me/birds") == Path("/cache/model.safetensors")
    download("hf://me/birds@v1.0")
    assert asked == [("me/birds", None), ("me/birds", "v1.0")]


@pytest.mark.parametrize("address", ["hf://birds", "hf://a/b/c", "hf://a/b@", "https://a/b"])
def test_another_address_is_refused_before_a_request_is_sent(address: str, asked: list[Any]) -> None:
    with pytest.raises(CovpoolError, match="hf://owner/name"):
        download(address)
    assert not asked
