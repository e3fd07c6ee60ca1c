"""Plots of benchmark records."""

import json
from pathlib import Path

import pytest

from covpool._records import read_lines
from covpool.bench._plots import plot_curves, plot_throughput


def record(name: str, shape: tuple[int, int, int], ms: float, suite: str = "curves") -> dict[str, object]:
    return {
        "suite": suite,
        "name": name,
        "shape": list(shape),
        "median_ms": ms,
        "extra": {},
        "device": "cpu",
        "torch": "2",
    }


def test_curves_are_drawn_from_the_records_of_their_suite(tmp_path: Path) -> None:
    shapes = [(16, 196, 64), (16, 196, 128), (16, 49, 128), (4, 196, 128)]
    records = [record(name, shape, 1.0 + i) for name in ("autograd", "covpool") for i, shape in enumerate(shapes)]
    file = tmp_path / "records.jsonl"
    file.write_text("\n".join(json.dumps(r) for r in [*records, record("other", (1, 1, 1), 1.0, "isqrt")]) + "\n")
    read = read_lines(file)
    assert len(read) == 9
    plot_curves(read, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes()[1:4] == b"PNG"


def test_a_file_without_curves_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="covpool bench curves"):
        plot_curves([record("a", (1, 1, 1), 1.0, "isqrt")], tmp_path / "curves.png")


def test_throughput_is_drawn_from_training_steps(tmp_path: Path) -> None:
    steps = [
        record(name, (batch, 3, 224), 1.0, "steps") | {"extra": {"images_per_s": 100.0 * batch}}
        for name in ("resnet50 mpn", "resnet50 isqrt")
        for batch in (16, 32)
    ]
    plot_throughput(steps, tmp_path / "throughput.png")
    assert (tmp_path / "throughput.png").read_bytes()[1:4] == b"PNG"
    with pytest.raises(ValueError, match="--model"):
        plot_throughput([record("a", (1, 1, 1), 1.0)], tmp_path / "none.png")
