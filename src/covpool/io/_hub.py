"""Checkpoints on the Hugging Face Hub."""

import re
from pathlib import Path

from covpool._errors import CovpoolError, require

SCHEME = "hf://"
HUB_FILE = "model.safetensors"
ADDRESS = re.compile(r"hf://(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")


def download(address: str) -> Path:
    """Download the checkpoint of a repository, or find it in the local cache, and return its path.

    Args:
        address: "hf://owner/name", or "hf://owner/name@revision" for a branch, tag or commit.
    """
    found = ADDRESS.fullmatch(address)
    if found is None:
        raise CovpoolError(f"an address on the hub is hf://owner/name or hf://owner/name@revision; got {address!r}")
    hub = require("huggingface_hub", "models")
    try:
        return Path(hub.hf_hub_download(found["repository"], HUB_FILE, revision=found["revision"]))
    except hub.errors.HfHubHTTPError as error:
        reason = str(error).partition("\n")[0]
        raise CovpoolError(f"{address} has no {HUB_FILE} that can be read ({reason}): check the address") from error
