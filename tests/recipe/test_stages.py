from covpool.recipe._schema import Optimizer, Recipe, Stage, Train
from covpool.recipe._stages import resolve_stages, total_epochs, total_steps


def test_settings_that_a_stage_leaves_out_stay() -> None:
    """Settings of an earlier stage stay too."""
    recipe = Recipe(
        optimizer=Optimizer(lr=0.1, weight_decay=1e-3),
        train=Train(epochs=99, batch_size=40, freeze=("pool",)),
        stages=(Stage(epochs=2, lr=1.0, head_factor=1000.0), Stage(epochs=3, batch_size=10, freeze=())),
    )
    first, second = (part.recipe for part in resolve_stages(recipe))
    assert first.optimizer == Optimizer(lr=1.0, weight_decay=1e-3, head_factor=1000.0) == second.optimizer
    assert first.train == Train(epochs=2, batch_size=40, freeze=("pool",))
    assert second.train == Train(epochs=3, batch_size=10, freeze=())
    assert total_epochs(recipe) == 5 and total_steps(recipe, 85) == 2 * 2 + 3 * 8


def test_without_stages_there_is_one() -> None:
    recipe = Recipe(train=Train(epochs=4))
    assert [(part.start, part.end, part.recipe) for part in resolve_stages(recipe)] == [(0, 4, recipe)]
