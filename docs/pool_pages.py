"""Hook of mkdocs: adds a snippet, the cost and our measured accuracy to the page of every pool, before its paper."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import covpool
from covpool.studies.probe import read_results, summarize

RESULTS = Path(__file__).parents[1] / "results"
POSITIONS, CHANNELS = 196, 256  # of the costs
CUB = {224: "probe_cub200_224.jsonl", 320: "probe_cub200_320.jsonl"}  # by the size of the images


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Insert the generated sections before the heading "Paper"."""
    if not page.file.src_uri.startswith("methods/"):
        return markdown
    name = Path(page.file.src_uri).stem
    before, heading, paper = markdown.partition("## Paper")
    code = "" if "```python" in before else f"## In code\n\n```python\n{snippet(name)}```\n\n"
    return f"{before}{code}## Cost and accuracy\n\n{facts(name)}\n\n{heading}{paper}"


def snippet(name: str) -> str:
    """Return code that builds a pool and applies it."""
    size = covpool.create_pool(name, 512, reduce_to=64, **_required(name)).out_features
    options = "".join(f", {key}={value}" for key, value in _required(name).items())
    return (
        "import torch\nimport covpool\n\n"
        f'pool = covpool.create_pool("{name}", in_features=512, reduce_to=64{options})\n'
        f"assert pool(torch.rand(8, 512, 14, 14)).shape == (8, {size})\n"
    )


def facts(name: str) -> str:
    """Return a table of the size, the cost and the accuracy of a pool, the last from the records in results/."""
    pool = covpool.create_pool(name, CHANNELS, **_required(name))
    work = pool.multiply_adds(POSITIONS, CHANNELS) / 1e6
    rows = [
        (f"length for {CHANNELS} channels", f"{pool.out_features:,}"),
        (f"parameters for {CHANNELS} channels", f"{sum(one.numel() for one in pool.parameters()):,}"),
        (
            f"multiply-adds per image, {POSITIONS} positions",
            f"{work:,.{0 if work >= 10 else 2}f} million",
        ),
    ]
    if name in device_times():
        rows.append(("forward and backward of 128 such images, NVIDIA H200", f"{device_times()[name]:.2g} ms"))
    rows += [(f"birds (CUB-200-2011), frozen MobileNetV2, {size} px", _accuracy(name, size)) for size in CUB]
    table = "\n".join(f"| {what} | {value} |" for what, value in rows if value)
    return (
        f"| quantity | value |\n|---|---|\n{table}\n\nIntervals are 95 %. [All pools side by side](../results.md); "
        "records: `results/h200.jsonl`, `results/probe_cub200_224.jsonl` and `results/probe_cub200_320.jsonl`."
    )


def _required(name: str) -> dict[str, int]:
    return {"num_classes": 5} if "num_classes" in covpool.pool_info(name).options else {}


def _accuracy(name: str, size: int) -> str:
    row = summaries(CUB[size]).get(name)
    if row is None:
        return ""
    low, high = (f"{100 * end:.1f}" for end in row.interval)
    gain = ""
    if name != "avg" and row.to_reference is not None:
        gain = "; against `avg` {:+.1f} to {:+.1f} points".format(*(100 * end for end in row.to_reference))
    note = f" ({row.note})" if row.note else ""
    return f"{100 * row.top1:.1f} % ({low} to {high}){gain}{note}"


@cache
def summaries(record: str) -> dict[str, Any]:
    """Return the summary of each pool in a record of `covpool probe`."""
    return {row.pool: row for row in summarize(read_results(RESULTS / record))}


@cache
def device_times() -> dict[str, float]:
    """Return the time of the GPU in ms for each pool of the suite "pools", the latest record of each."""
    records = map(json.loads, (RESULTS / "h200.jsonl").read_text().splitlines())
    return {one["name"]: one["extra"]["device_ms"] for one in records if one["suite"] == "pools"}
