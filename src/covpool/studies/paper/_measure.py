"""What the columns of an item measure on this machine: times, rates of training and memory."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from covpool._records import environment
from covpool.recipe import read_recipe
from covpool.studies.paper._items import Item
from covpool.studies.paper._kept import keep
from covpool.studies.paper._results import measured_file

Quantities = dict[str, float | None]  # by name


def measure_item(
    item: Item, out: Path, device: torch.device, seconds: float, *, processes: int, on_row: Callable[[str], None]
) -> Path:
    """Measure every row of an item, and keep the numbers with the machine that they come from.

    Args:
        item: Table or figure.
        out: Folder of all runs.
        device: Device to measure on.
        seconds: Approximate time of each measurement, in seconds.
        processes: Number of processes to measure the rate of training in.
        on_row: Called with the label of a row before its network is measured.

    Returns:
        The file with the numbers.
    """
    from covpool.bench import measure_network, measure_rate  # takes seconds to import

    rows = _measure_operations(item, device, seconds) if any(row.measure for row in item.rows) else {}
    batch = item.batch.cuda if device.type == "cuda" else item.batch.cpu
    for row in item.rows:
        if not row.recipe:
            continue
        on_row(row.label)
        recipe = read_recipe(row.recipe, row.settings)
        images = int(row.x) if item.x_is_batch and row.x else batch
        if processes > 1:
            rate = measure_rate(recipe, device.type, seconds, batch=images, processes=processes)
            rows[row.label] = {"hz": rate}
        else:
            rows[row.label] = asdict(measure_network(recipe, device, seconds, batch=images))
    baseline = next(iter(rows.values())).get("pool_mib") or 0.0
    for measured in rows.values():
        measured["pool_delta_mib"] = (measured.get("pool_mib") or 0.0) - baseline
    about = {**environment(device, 0), "item": item.name, "batch": batch, "processes": processes}
    path = measured_file(item, out)
    keep(path, {**about, "rows": rows})
    return path


def _measure_operations(item: Item, device: torch.device, seconds: float) -> dict[str, Quantities]:
    """The times of one matrix, and of each in the largest batch, by the label of the row."""
    from covpool.bench import SUITES

    found = {(one.name, one.shape[0]): one.median_ms for one in SUITES["decompositions"](device, seconds, 0)}
    most = max(size for _, size in found)
    return {
        row.label: {"one_ms": found[row.measure, 1], "batch_ms": found[row.measure, most] / most} for row in item.rows
    }
