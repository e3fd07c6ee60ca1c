"""Every training of fine-tuning that a claim names can be built."""

import pytest
import torch

from covpool.engine.training import build_network
from covpool.recipe import check_recipe, read_recipe
from covpool.studies.trained import TrainedArm
from covpool.studies.trained._claims import CLAIMS, COMPARED, ISQRT, SEEDS

ARMS = list(dict.fromkeys(arm.with_seed(1) for claim in CLAIMS for arm in claim.arms if arm.fused_with is None))


def test_every_comparison_has_all_seeds_and_arms_are_shared() -> None:
    assert all(comparison.seeds == SEEDS for claim in CLAIMS for comparison in claim.comparisons)
    numbers = [claim.number for claim in CLAIMS]
    assert len(set(numbers)) == len(numbers) >= 10
    assert sum(ISQRT in claim.arms for claim in CLAIMS) >= 7
    assert len(COMPARED) == len(set(COMPARED)) and "isqrt" not in COMPARED


def test_fused_trainings_are_among_the_others_and_share_their_seed() -> None:
    arms = [arm for claim in CLAIMS for arm in claim.arms]
    fused = [arm for arm in arms if arm.fused_with is not None]
    assert {arm.seed for arm in fused} == set(SEEDS)
    for arm in fused:
        assert arm.alone in arms and arm.fused_with in arms and arm.fused_with.seed == arm.seed
        assert arm.name == f"{arm.alone.name} + {arm.fused_with.name}" and "seed" not in arm.label


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_the_settings_of_every_training_are_known(arm: TrainedArm) -> None:
    check_recipe(read_recipe(arm.recipe, [*arm.settings, "data.root=birds"]))


@pytest.mark.long
@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_every_network_can_be_built_and_learns_finite_gradients(arm: TrainedArm) -> None:
    recipe = read_recipe(arm.recipe, [*arm.settings, "init.pretrained=false", "augment.size=96"])
    network = build_network(recipe, [f"class {i}" for i in range(5)]).network.train()
    network(torch.rand(3, 3, 96, 96)).square().mean().backward()
    gradients = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    assert gradients and all(gradient.isfinite().all() for gradient in gradients)
