"""What a run may be asked to do, and where captures lie that were given no place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact.errors import RecordingMissing, UsageError
from reenact.runs.options import Options, last_run
from reenact.store.files import runs_folder

COMMAND = ("python", "program.py")


def test_the_default_is_to_record() -> None:
    options = Options(command=COMMAND)
    assert (options.job, options.path, options.net, options.strict) == ("record", None, False, None)


@pytest.mark.parametrize(
    "said",
    [{"mode": "rewrite"}, {"mode": "record"}, {"overwrite": True}, {"append": True}],
    ids=str,
)
@pytest.mark.parametrize("job", ["replay", "live"])
def test_what_goes_with_recording_only(job: Any, said: dict[str, Any]) -> None:
    assert Options(command=COMMAND, job="record", **said).job == "record"
    with pytest.raises(UsageError, match="goes with recording"):
        Options(command=COMMAND, job=job, **said)


@pytest.mark.parametrize(
    "said",
    [
        {"policy": "p"},
        {"strict": True},
        {"strict": False},
        {"allow": ("network",)},
        {"boundaries": ("mine",)},
        {"isolate": True},
        {"report": Path("r.json")},
    ],
    ids=str,
)
def test_what_has_no_meaning_live(said: dict[str, Any]) -> None:
    assert Options(command=COMMAND, job="replay", path=Path("c"), **said).job == "replay"
    with pytest.raises(UsageError, match="--live neither records nor replays"):
        Options(command=COMMAND, job="live", **said)


@pytest.mark.parametrize("said", [{"overwrite": True}, {"append": True}], ids=str)
def test_modes_replace_and_add_by_themselves(said: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="not with --mode"):
        Options(command=COMMAND, mode="record_missing", **said)


def test_to_replace_and_to_add_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        Options(command=COMMAND, overwrite=True, append=True)


def test_no_program() -> None:
    with pytest.raises(UsageError, match="no program is given"):
        Options(command=())


def test_the_last_run_is_the_one_with_the_last_name(tmp_path: Path) -> None:
    folder = runs_folder(tmp_path)
    for name in ("20261116T031500.000001-ab12", "20261116T031500.000000-ffff"):
        (folder / name).mkdir(parents=True)
    (folder / "zzz").touch()
    assert last_run(tmp_path).name == "20261116T031500.000001-ab12"


@pytest.mark.parametrize("made", [False, True], ids=["no folder", "empty"])
def test_there_is_no_last_run(made: bool, tmp_path: Path) -> None:
    if made:
        runs_folder(tmp_path).mkdir(parents=True)
    with pytest.raises(RecordingMissing, match="no run found in") as caught:
        last_run(tmp_path)
    assert caught.value.exit_code == 3
