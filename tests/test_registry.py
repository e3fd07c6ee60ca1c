import pytest
import torch
from torch import Tensor

import covpool

ABOUT = {"title": "Twice", "paper": "", "order": "1", "formula": "2 mean x", "size": "c", "cost": "n c"}


class Twice(covpool.Pool):
    """Twice the mean: a user's own pool."""

    def __init__(self, in_features: int, *, factor: float = 2.0, **common: object) -> None:
        super().__init__(in_features, lambda c: c, **common)
        self.factor = factor

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        return self.factor * x.mean(1)


@pytest.fixture
def twice() -> object:
    covpool.register("twice", **ABOUT)(Twice)
    yield
    covpool.unregister("twice")


def test_the_papers_pools_are_there() -> None:
    assert {"avg", "max", "gem", "cov", "mpn", "isqrt", "gaussian"} <= set(covpool.list_pools())


@pytest.mark.parametrize("name", covpool.list_pools())
def test_every_pool_is_described(name: str) -> None:
    info = covpool.pool_info(name)
    assert info.name == name
    assert all((info.title, info.paper, info.order, info.formula, info.size, info.cost))
    pool = covpool.create_pool(name, 16)
    assert type(pool).__doc__ and type(pool).__module__ == f"covpool.pools.{name}"
    if "," not in info.size:  # a formula in c alone
        formula = info.size.replace(" (", " * (").replace(")(", ") * (").replace("^", "**")
        assert pool.out_features == eval(formula, {"c": 16})


@pytest.mark.usefixtures("twice")
def test_a_users_own_pool_is_created_listed_and_described() -> None:
    assert "twice" in covpool.list_pools()
    assert covpool.pool_info("twice").options == {"factor": 2.0}
    pool = covpool.create_pool("twice", 4, factor=3.0, reduce_to=2)
    assert isinstance(pool, Twice) and pool.out_features == 2
    torch.testing.assert_close(covpool.create_pool("twice", 4)(torch.ones(1, 4, 2, 2)), torch.full((1, 4), 2.0))


@pytest.mark.usefixtures("twice")
def test_a_name_is_taken_once_but_the_same_class_may_come_again() -> None:
    assert covpool.register("twice", **ABOUT)(Twice) is Twice
    with pytest.raises(ValueError, match="'twice' is registered already, as Twice: choose another name"):
        covpool.register("twice", **ABOUT)(covpool.pools.AveragePool)


def test_unregister_takes_it_out_again() -> None:
    covpool.register("twice", **ABOUT)(Twice)
    covpool.unregister("twice")
    assert "twice" not in covpool.list_pools()


@pytest.mark.parametrize("use", [lambda n: covpool.create_pool(n, 4), covpool.pool_info, covpool.unregister])
def test_an_unknown_name_is_refused_with_the_nearest(use: object) -> None:
    with pytest.raises(ValueError, match=r"no pool named 'isqrtt' \(did you mean 'isqrt'\?\); there are .*avg"):
        use("isqrtt")


@pytest.mark.parametrize("option", ["iteration", "pooled_size"])
def test_an_unknown_option_is_refused_with_those_there_are(option: str) -> None:
    with pytest.raises(TypeError, match=rf"pool 'isqrt' has no option '{option}'.*takes iterations, .*reduce_to"):
        covpool.create_pool("isqrt", 4, **{option: 5})
