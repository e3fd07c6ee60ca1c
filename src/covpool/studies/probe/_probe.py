"""Probe: compare pools on the frozen features of a backbone, in minutes."""

from collections.abc import Callable, Iterable, Iterator

import torch

from covpool._progress import OnProgress, ignore
from covpool.data.sets import open_data
from covpool.studies.probe._convex import RANDOM_POOLS, run_convex
from covpool.studies.probe._inputs import (
    Measure,
    ProbeInputs,
    make_backbone,
    make_heads,
    make_maps,
    resolve_inputs,
    settings_key,
)
from covpool.studies.probe._result import ProbeResult
from covpool.studies.probe._settings import Probe
from covpool.studies.probe._sgd import run_sgd


def no_costs(call: Callable[[], None], device: torch.device) -> dict[str, float | None]:
    """Measure nothing."""
    return {}


def probe(
    settings: Probe,
    *,
    device: torch.device | str = "cpu",
    known: Iterable[ProbeResult] = (),
    measure: Measure = no_costs,
    on_progress: OnProgress = ignore,
) -> Iterator[ProbeResult]:
    """Fit every pool and a classifier to the feature maps of one frozen backbone.

    The penalty, or the learning rate, of each pool is chosen inside the training images. Then pool and classifier are
    fitted to all training images. The test images are used once, to evaluate them.

    Args:
        settings: Settings of `read_probe`.
        device: Device of the backbone and the pools.
        known: Earlier results. Those with the same settings are reused.
        measure: Measures the cost of a call that processes one batch, such as {"ms_per_batch": ...}.
        on_progress: Called with the progress.

    Yields:
        One result per pool and seed, as soon as it is known. The result of a pool that fails says why.
    """
    device = torch.device(device)
    splits = open_data(settings.data)
    backbone = make_backbone(settings).to(device)
    settings = resolve_inputs(settings, backbone.input_settings)
    heads = make_heads(settings, backbone, len(splits.train.classes))
    key = settings_key(settings, splits, device)
    found = {(run.pool, run.seed): run for run in known if run.key == key and not run.failed}
    convex = settings.classifier == "logistic"
    jobs = [
        (label, seed)
        for label, head in heads.items()
        for seed in (settings.seeds[:1] if convex and head.name not in RANDOM_POOLS else settings.seeds)
    ]
    inputs: ProbeInputs | None = None
    for done, (label, seed) in enumerate(jobs):
        on_progress(f"{label}, seed {seed}", done, len(jobs))
        if (label, seed) not in found:
            if inputs is None:
                maps = make_maps(settings, splits, backbone, device, on_progress)
                inputs = ProbeInputs(settings, heads, *maps, key)
                on_progress(f"{label}, seed {seed}", done, len(jobs))
            before = next((run for (name, _), run in found.items() if name == label and not run.failed), None)
            found[label, seed] = _guarded(inputs, label, seed, before, measure)
        yield found[label, seed]
    on_progress("done", len(jobs), len(jobs))


def _guarded(inputs: ProbeInputs, label: str, seed: int, before: ProbeResult | None, measure: Measure) -> ProbeResult:
    """Compute one result. An error of the pool becomes a result that states it, so that other pools go on."""
    run = run_convex if inputs.probe.classifier == "logistic" else run_sgd
    try:
        return run(inputs, label, seed, before, measure)
    except (RuntimeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return ProbeResult(key=inputs.key, pool=label, seed=seed, failed=reason)
    finally:
        torch.cuda.empty_cache()  # the vectors of the next pool have another size
