"""The check of the saved buckets of count sketches, which every pool with sketches makes before it loads a state."""

from typing import Any

from torch import Tensor

from covpool._errors import CovpoolError


def refuse_other_buckets(pool: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Refuse saved `hashes` that are no buckets of a sketch of length `pool.size`. Their shape does not tell.

    Register it with `register_load_state_dict_pre_hook`.
    """
    for name, hashes in state.items():
        if not (name.startswith(prefix) and name.endswith("hashes")):
            continue
        if type(hashes) is not Tensor or hashes.is_meta or not hashes.numel():  # fake tensors have no numbers
            continue
        least, most = (int(bound) for bound in hashes.aminmax())
        if least < 0 or most >= pool.size:
            raise CovpoolError(
                f"`{name}` must be bucket numbers below `size` = {pool.size}; got {least} to {most}: "
                "make the pool with the `size` that it was saved with"
            )
