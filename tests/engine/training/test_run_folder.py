from pathlib import Path

import pytest

from covpool.engine.training._run_folder import check


@pytest.mark.parametrize("name", ["recipe.toml", "log.jsonl", "state.pt", "last.safetensors", "best.safetensors"])
def test_files_of_others_are_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ValueError, match=rf"{tmp_path} holds .*: .*name another --out"):
        check(tmp_path, resume=False)


def test_what_a_run_that_never_began_left_behind_is_no_obstacle(tmp_path: Path) -> None:
    for name in ("recipe.toml", "log.jsonl"):
        (tmp_path / name).touch()
    check(tmp_path, resume=False)
    (tmp_path / "best.safetensors").touch()
    with pytest.raises(ValueError, match="which a run would write over"):
        check(tmp_path, resume=False)
    check(tmp_path, resume=True)
