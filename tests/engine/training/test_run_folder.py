from pathlib import Path

import pytest

from covpool.engine.training._run_folder import RUN_FILES, check_run_folder


@pytest.mark.parametrize("name", RUN_FILES)
def test_existing_files_are_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ValueError, match=rf"{tmp_path} holds .*: .*name another --out"):
        check_run_folder(tmp_path, resume=False)


def test_files_of_a_run_that_failed_before_its_first_step_may_be_overwritten(tmp_path: Path) -> None:
    for name in ("recipe.toml", "log.jsonl"):
        (tmp_path / name).touch()
    check_run_folder(tmp_path, resume=False)
    (tmp_path / "best.safetensors").touch()
    with pytest.raises(ValueError, match="which a run would overwrite"):
        check_run_folder(tmp_path, resume=False)
    check_run_folder(tmp_path, resume=True)


def test_a_run_that_has_logged_a_step_is_not_overwritten(tmp_path: Path) -> None:
    """It was killed before its first state, so it has only the two files that may be overwritten otherwise."""
    (tmp_path / "recipe.toml").touch()
    (tmp_path / "log.jsonl").write_text('{"event": "step", "step": 1}\n')
    with pytest.raises(ValueError, match=f"{tmp_path} holds a run already"):
        check_run_folder(tmp_path, resume=False)
