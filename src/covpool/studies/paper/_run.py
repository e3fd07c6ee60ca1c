"""Running the trainings of an item, one after another."""

from collections.abc import Callable, Iterator, Sequence

from covpool.engine.training import Event, ignore, train
from covpool.recipe import RECIPE_FILE
from covpool.studies.paper._trainings import PaperTraining


def run_trainings(
    planned: Sequence[PaperTraining],
    *,
    on_run: Callable[[int, PaperTraining], None] = lambda number, planned: None,
    on_event: Callable[[Event], None] = ignore,
) -> Iterator[tuple[PaperTraining, str]]:
    """Run the trainings whose data are named. Finished ones are skipped, and interrupted ones are resumed.

    Args:
        planned: Trainings of `plan_item`.
        on_run: Called before each training, with its number.
        on_event: Called with the events of the trainings, as in `train`.

    Yields:
        Each training that did not end well, with the reason. The others go on.

    Raises:
        Stopped: Ctrl-C was pressed, and the state was saved.
    """
    for number, one in enumerate(planned):
        if not one.recipe.data.root or one.training.result(one.run.parent) is not None:
            continue
        on_run(number, one)
        try:
            train(one.recipe, one.run, resume=(one.run / RECIPE_FILE).is_file(), on_event=on_event)
        except Exception as error:
            yield one, f"{type(error).__name__}: {error}".splitlines()[0]
