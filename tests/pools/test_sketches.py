"""covpool.pools._sketches: states of pools with count sketches of another length."""

import copy
import pickle

import pytest
import torch

from cases import features
from covpool import create_pool
from ops.oracles import refuses

every_pool = pytest.mark.parametrize("name", ["cbp", "fason", "kernel"])


@every_pool
@pytest.mark.parametrize("clone", [lambda pool: pool, copy.deepcopy, lambda pool: pickle.loads(pickle.dumps(pool))])
def test_a_state_of_a_longer_sketch_is_refused_and_changes_nothing(name: str, clone: object) -> None:
    saved = create_pool(name, 8, size=512, reduce_to=5).state_dict()
    pool = clone(create_pool(name, 8, size=16, reduce_to=5))  # type: ignore[operator]
    before = {key: value.clone() for key, value in pool.state_dict().items()}
    for module, state in ((pool, saved), (torch.nn.ModuleDict({"a": pool}), {f"a.{k}": v for k, v in saved.items()})):
        with refuses(ValueError, "hashes", "below `size` = 16", "got", "make the pool with the `size`"):
            module.load_state_dict(state)
    assert all(torch.equal(value, before[key]) for key, value in pool.state_dict().items())


@every_pool
def test_negative_buckets_are_refused(name: str) -> None:
    pool = create_pool(name, 5, size=16)
    state = {key: value - 1 if key.endswith("hashes") else value for key, value in pool.state_dict().items()}
    with refuses(ValueError, "hashes", "got -1 to 14"):
        pool.load_state_dict(state)


@every_pool
def test_a_state_of_the_same_length_is_loaded(name: str) -> None:
    x, saved = features(2, 9, 5), create_pool(name, 5, size=16, seed=3)
    pool = create_pool(name, 5, size=16)
    pool.load_state_dict(saved.state_dict())
    assert torch.equal(pool(x), saved(x))
    with torch.device("meta"):
        meta = create_pool(name, 5, size=16)
    meta.load_state_dict(meta.state_dict(), assign=True)
    meta.load_state_dict(saved.state_dict(), assign=True)
    assert torch.equal(meta(x), saved(x))
