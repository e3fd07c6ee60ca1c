"""Records are JSON lines with their environment."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
import torch

from covpool import CovpoolError
from covpool._records import append_lines, environment, read_lines, read_suite
from covpool.bench._record import Record

RECORD = Record("isqrt", "covpool", (2, 49, 64), "forward+backward", 1.5, 1.25, 2.0, ratio=3.0, value_error=1e-6)


def test_records_are_json_lines_with_their_environment(tmp_path: Path) -> None:
    path = tmp_path / "new" / "records.jsonl"
    where = environment(torch.device("cpu"), seed=7)
    one = {**asdict(RECORD), **where}
    append_lines(path, one, one)
    append_lines(path, one)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 3, "records are appended"
    (line, *others) = lines
    assert others == [line, line]
    assert (line["suite"], line["name"], line["shape"]) == ("isqrt", "covpool", [2, 49, 64])
    assert (line["median_ms"], line["p20_ms"], line["p80_ms"], line["ratio"]) == (1.5, 1.25, 2.0, 3.0)
    assert (line["value_error"], line["gradient_error"], line["seed"]) == (1e-6, None, 7)


def test_a_half_written_line_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"a": 1}\n{"a": ')
    assert read_lines(path) == [{"a": 1}]
    append_lines(path, {"a": 2})
    assert path.read_text() == '{"a": 1}\n{"a": \n{"a": 2}\n'
    with pytest.raises(CovpoolError, match=r"line 2 of .*records.jsonl must be a JSON object; got '{\"a\": ': remove"):
        read_lines(path)


def test_a_last_line_may_have_no_end(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"a": 1}')
    assert read_lines(path) == [{"a": 1}]
    append_lines(path, {"a": 2})
    assert read_lines(path) == [{"a": 1}, {"a": 2}]
    assert read_lines(tmp_path / "none") == []


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_records_can_go_into_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as other:
        read = other.submit((tmp_path / "pipe").read_text)
        append_lines(tmp_path / "pipe", {"a": 1})
        assert read.result(10) == '{"a": 1}\n' and read_lines(tmp_path / "pipe") == []


@dataclass
class Counted:
    name: str
    count: int = 0


def test_lines_of_a_suite_are_objects(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    lines = [{"name": "a", "count": 2, "commit": "c"}, {"name": "b"}]
    append_lines(path, *({"suite": "mine", **line} for line in lines), {"suite": "other"}, {"no": "suite"})
    assert read_suite(path, Counted, "mine") == [Counted("a", 2), Counted("b")]
    append_lines(path, {"suite": "mine", "count": 3})
    with pytest.raises(CovpoolError, match=r"a result in .*records.jsonl must have name; .* has no name: remove it"):
        read_suite(path, Counted, "mine")


def test_the_environment_is_recorded() -> None:
    where = environment(torch.device("cpu"), seed=0)
    assert where["torch"] == torch.__version__ and "CPU" in where["device"]
    assert where["command"].startswith("covpool")
    assert where["commit"] and " " not in where["commit"]
    assert where["threads"] == torch.get_num_threads()
    json.dumps(where)


def test_a_tree_without_history_can_state_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVPOOL_COMMIT", "abc1234")
    assert environment(torch.device("cpu"), seed=0)["commit"] == "abc1234"


def test_nan_is_written_as_a_string_wherever_it_is(tmp_path: Path) -> None:
    failed = Record("mpn", "autograd", (2, 4, 4), "forward", 1.0, 1.0, 1.0, gradient_error=float("nan"))
    append_lines(tmp_path / "records.jsonl", {**asdict(failed), "ratios": [0.5, float("inf"), {"a": (float("nan"),)}]})
    line = json.loads((tmp_path / "records.jsonl").read_text())
    assert line["gradient_error"] == "nan" and line["ratios"] == [0.5, "inf", {"a": ["nan"]}]
