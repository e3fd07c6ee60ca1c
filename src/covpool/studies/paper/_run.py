"""Running the trainings of an item, one after another."""

from collections.abc import Callable, Iterator, Sequence

from covpool._progress import ignore
from covpool.engine.training import Event
from covpool.studies._runs import train_or_resume
from covpool.studies.paper._trainings import PaperTraining


def run_trainings(
    planned: Sequence[PaperTraining],
    *,
    on_run: Callable[[int, PaperTraining], None] = ignore,
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
        if not one.recipe.data.root or one.is_finished:
            continue
        on_run(number, one)
        if failed := train_or_resume(one.recipe, one.run, on_event):
            yield one, failed
