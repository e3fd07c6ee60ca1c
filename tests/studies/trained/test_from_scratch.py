"""Every training from scratch that a claim names can be built, and both pools are tuned with as many trainings."""

import pytest
import torch

from covpool.engine.training import build_network
from covpool.recipe import check_recipe, read_recipe
from covpool.studies.trained import TrainedArm
from covpool.studies.trained._claims import SEEDS
from covpool.studies.trained._from_scratch import AVG, DEPTHS, FROM_SCRATCH, GAPS, GCPS, ISQRT, SEARCH_FROM_SCRATCH

ARMS = list(dict.fromkeys(arm.with_seed(1) for claim in FROM_SCRATCH for arm in claim.arms))


def test_every_comparison_has_all_seeds_and_shares_the_two_main_trainings() -> None:
    assert all(comparison.seeds == SEEDS for claim in FROM_SCRATCH for comparison in claim.comparisons)
    assert [claim.number for claim in FROM_SCRATCH] == [26, 17, 10, 9]
    assert all(ISQRT in claim.arms for claim in FROM_SCRATCH) and GCPS[18] == ISQRT and GAPS[18] == AVG
    above, by_two = FROM_SCRATCH[0].comparisons
    assert (above.least, by_two.least) == (0, 0.02) and above.terms == by_two.terms


@pytest.mark.parametrize("depth", DEPTHS)
def test_both_pools_have_the_same_backbone(depth: int) -> None:
    backbones = {arms[depth].resolved.model.backbone for arms in (GAPS, GCPS)}
    assert backbones == {f"covpool/resnet{depth}_small_stem"}


@pytest.mark.parametrize("arm", [*ARMS, *SEARCH_FROM_SCRATCH.possible], ids=lambda arm: arm.name)
def test_the_settings_of_every_training_are_known(arm: TrainedArm) -> None:
    check_recipe(read_recipe(arm.recipe, [*arm.settings, "data.root=images"]))
    assert arm.minutes >= 1 and not arm.resolved.init.pretrained


@pytest.mark.long
@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_every_network_can_be_built_and_learns_finite_gradients(arm: TrainedArm) -> None:
    network = build_network(arm.resolved, [f"class {i}" for i in range(5)]).network.train()
    network(torch.rand(3, 3, 32, 32)).square().mean().backward()
    gradients = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    assert gradients and all(gradient.isfinite().all() for gradient in gradients)
