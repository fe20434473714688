"""The table of modes, row by row, with real files."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import (
    RecordingDamaged,
    RecordingExists,
    RecordingMissing,
    RecordingTooNew,
    RecordingUnfinished,
    UsageError,
)
from reenact.errors import RecordingError
from tests.integration.sessions import Studio

PLACES = ["tape", "capture"]


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path)


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, studio: Studio) -> dict[str, Any]:
    """The arguments that name a place: a tape or a capture directory."""
    return {request.param: studio.root / f"recording.{request.param}"}


def _calls(studio: Studio, *numbers: Any) -> Callable[[], list[Any]]:
    return lambda: [studio.get(number) for number in numbers]


# off


@pytest.mark.parametrize(
    "arguments", [{}, {"capture": Path("nowhere/at/all")}, {"tape": Path("x")}]
)
def test_off_asks_the_world_and_opens_no_file(
    studio: Studio, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(studio.root)
    with studio.session(mode="off", **arguments) as session:
        assert studio.get(1) == {"x": 1, "n": 1}
        assert list(studio.words(2)) == ["w0-2", "w1-3"]
        assert session.call("tool", {}, lambda: (1, 2)) == (1, 2)  # by reference, not by value
    assert studio.everything() == {}
    assert studio.warnings == []


def test_off_needs_no_place(studio: Studio) -> None:
    with reenact.session(mode="off", root=studio.root) as session:
        assert session.report().to_json()["counts"]["live"] == 0
        assert reenact.current() is session


def test_off_ignores_what_is_recorded(studio: Studio) -> None:
    studio.record(_calls(studio, 1))
    before = studio.everything()
    with studio.session(mode="off"):
        assert studio.get(1)["n"] == 2
    assert studio.everything() == before


# record


def test_record_refuses_an_existing_recording(studio: Studio, place: dict[str, Any]) -> None:
    studio.record(_calls(studio, 1), **place)
    before = studio.everything()
    with pytest.raises(RecordingExists) as caught:
        studio.record(_calls(studio, 2), **place)
    assert "overwrite" in caught.value.hint
    assert studio.asked == 1
    assert studio.everything() == before


def test_overwrite_replaces_it(studio: Studio, place: dict[str, Any]) -> None:
    studio.record(_calls(studio, 1), **place)
    new = studio.record(_calls(studio, 2), overwrite=True, **place)
    assert studio.replay(_calls(studio, 2), **place) == new


def test_append_adds_to_it(studio: Studio, place: dict[str, Any]) -> None:
    first = studio.record(_calls(studio, 1, 2), **place)
    second = studio.record(_calls(studio, 3), append=True, **place)
    third = studio.record(_calls(studio, 4), append=True, **place)
    assert studio.replay(_calls(studio, 1, 2, 3, 4), **place) == [*first, *second, *third]


def _busy(studio: Studio) -> Any:
    """Streams with calls between, a thread, a tool, tasks and timers."""
    session = reenact.current()
    assert session is not None
    threads: list[Any] = []
    thread = threading.Thread(target=lambda: threads.append(studio.get("thread")))
    thread.start()
    thread.join()

    async def tasks() -> Any:
        await asyncio.sleep(0.001)
        return await asyncio.gather(studio.aget(1), asyncio.to_thread(studio.get, 2))

    return [
        [(word, studio.get(word[:2])) for word in studio.words(2)],
        session.call("tool", {}, lambda: studio.get("inside")),
        threads,
        asyncio.run(tasks()),
    ]


def test_what_is_appended_goes_on_where_the_recording_ends(
    studio: Studio, place: dict[str, Any]
) -> None:
    made = [studio.record(lambda: _busy(studio), **place)]
    for _ in range(2):
        made.append(studio.record(lambda: _busy(studio), append=True, **place))
    assert studio.replay(lambda: [_busy(studio) for _ in range(3)], **place) == made


@pytest.mark.parametrize("flag", ["overwrite", "append"])
def test_overwrite_and_append_begin_where_there_is_nothing(
    studio: Studio, place: dict[str, Any], flag: str
) -> None:
    arguments: dict[str, Any] = {**place, flag: True}
    made = studio.record(_calls(studio, 1), **arguments)
    assert studio.replay(_calls(studio, 1), **place) == made


@pytest.mark.parametrize("flag", ["overwrite", "append"])
@pytest.mark.parametrize("mode", ["off", "replay", "record_missing", "rewrite"])
def test_overwrite_and_append_go_with_record_only(studio: Studio, mode: str, flag: str) -> None:
    with pytest.raises(UsageError, match=flag):
        studio.session(**{"mode": mode, flag: True})  # type: ignore[arg-type]


def test_overwrite_and_append_exclude_each_other(studio: Studio) -> None:
    with pytest.raises(UsageError, match="exclude"):
        studio.session(mode="record", overwrite=True, append=True)


def test_a_body_that_fails_leaves_a_recording_that_says_so(
    studio: Studio, place: dict[str, Any]
) -> None:
    def body() -> None:
        studio.get(1)
        raise ValueError("not for the manifest")

    with pytest.raises(ValueError, match="not for the manifest"):
        studio.record(body, **place)
    manifest = studio.manifest(next(iter(place.values())))
    assert (manifest.status, manifest.error) == ("error", "ValueError")
    with pytest.raises(ValueError, match="not for the manifest"):
        studio.replay(body, **place)


def test_recording_nothing_is_a_recording(studio: Studio, place: dict[str, Any]) -> None:
    studio.record(lambda: None, **place)
    assert studio.replay(lambda: 7, **place) == 7


# replay


def _damage(path: Path) -> None:
    file = path / "events.jsonl" if path.is_dir() else path
    file.write_bytes(file.read_bytes().replace(b'"n":1', b'"n":2', 1))


def _unfinish(path: Path) -> None:
    if path.is_dir():
        (path / "manifest.json").unlink()
        return
    lines = path.read_bytes().splitlines(keepends=True)
    path.with_name(f"{path.name}.part").write_bytes(b"".join(lines[:-1]))
    path.unlink()


def _from_the_future(path: Path) -> None:
    file = path / "manifest.json" if path.is_dir() else path
    text = file.read_text("utf-8")
    file.write_text(
        text.replace('"version": "1.0"', '"version": "2.0"').replace(
            '"version":"1.0"', '"version":"2.0"'
        ),
        "utf-8",
    )


def _remove(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


BROKEN: list[tuple[Callable[[Path], None], type[RecordingError], str]] = [
    (_remove, RecordingMissing, "mode='record'"),
    (_damage, RecordingDamaged, "copy"),
    (_unfinish, RecordingUnfinished, "recover"),
    (_from_the_future, RecordingTooNew, "upgrade"),
]


@pytest.mark.parametrize(
    "spoil,error,hint", BROKEN, ids=lambda value: getattr(value, "__name__", None)
)
def test_each_way_to_be_unusable_is_another_error(
    studio: Studio,
    place: dict[str, Any],
    spoil: Callable[[Path], None],
    error: type[RecordingError],
    hint: str,
) -> None:
    studio.record(_calls(studio, 1), **place)
    spoil(next(iter(place.values())))
    with pytest.raises(RecordingError) as caught:
        studio.replay(_calls(studio, 1), **place)
    assert type(caught.value) is error
    assert hint in caught.value.hint
    assert reenact.current() is None


def test_the_wrong_container_says_what_it_is(studio: Studio) -> None:
    tape, capture = studio.root / "t", studio.root / "c"
    studio.record(_calls(studio, 1), tape=tape)
    studio.record(_calls(studio, 1), capture=capture)
    before = studio.everything()
    for mode in ("record", "replay", "record_missing", "rewrite"):
        with pytest.raises(UsageError, match="is a file, and a capture is a directory") as caught:
            studio.record(_calls(studio, 1), mode=mode, capture=tape)
        assert f"session(tape={str(tape)!r})" in caught.value.hint
        with pytest.raises(UsageError, match="is a directory, and a tape is a file"):
            studio.record(_calls(studio, 1), mode=mode, tape=capture)
    with pytest.raises(UsageError, match="a tape is a file"):
        studio.record(_calls(studio, 1), tape=capture, overwrite=True)
    with pytest.raises(UsageError, match="is not a path"):
        studio.record(_calls(studio, 1), capture=f"{capture}\0")
    assert studio.everything() == before
    assert studio.asked == 2


def test_replay_writes_nothing(studio: Studio, place: dict[str, Any]) -> None:
    made = studio.record(_calls(studio, 1, 2), **place)
    before = studio.everything()
    assert studio.replay(_calls(studio, 1, 2), **place) == made
    assert studio.everything() == before


def test_replay_is_the_default(studio: Studio) -> None:
    made = studio.record(_calls(studio, 1))
    with studio.session() as session:
        assert session.mode == "replay"
        assert [studio.get(1)] == made


# record_missing


def test_record_missing_records_where_there_is_nothing(
    studio: Studio, place: dict[str, Any]
) -> None:
    made = studio.record(_calls(studio, 1, 2), mode="record_missing", **place)
    assert studio.replay(_calls(studio, 1, 2), **place) == made


def test_record_missing_takes_an_empty_folder(studio: Studio) -> None:
    folder = studio.root / "made"
    folder.mkdir()
    made = studio.record(_calls(studio, 1), mode="record_missing", capture=folder)
    assert studio.replay(_calls(studio, 1), capture=folder) == made


def test_record_missing_touches_nothing_when_nothing_is_missing(
    studio: Studio, place: dict[str, Any]
) -> None:
    made = studio.record(_calls(studio, 1, 2), **place)
    before = _stamps(studio.root)
    again = studio.record(_calls(studio, 1, 2), mode="record_missing", **place)
    assert again == made
    assert _stamps(studio.root) == before


def _stamps(root: Path) -> dict[Path, tuple[int, int]]:
    """Which file it is, and when it was last written."""
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in root.rglob("*")}


def test_record_missing_adds_what_is_missing_where_it_belongs(
    studio: Studio, place: dict[str, Any]
) -> None:
    first = studio.record(_calls(studio, 1, 3), **place)
    second = studio.record(_calls(studio, 0, 1, 2, 3, 4), mode="record_missing", **place)
    assert [second[1], second[3]] == first
    assert studio.asked == 5
    assert studio.replay(_calls(studio, 0, 1, 2, 3, 4), **place) == second


def test_what_record_missing_recorded_is_not_served_in_the_same_session(studio: Studio) -> None:
    studio.record(_calls(studio, 1))
    first, second = studio.record(lambda: [studio.get(9), studio.get(9)], mode="record_missing")
    assert first["n"] != second["n"]


def test_record_missing_keeps_what_is_not_used(studio: Studio, place: dict[str, Any]) -> None:
    one, two = studio.record(_calls(studio, 1, 2), **place)
    [three] = studio.record(_calls(studio, 3), mode="record_missing", **place)
    assert studio.replay(_calls(studio, 3, 1, 2), **place) == [three, one, two]


def test_record_missing_of_a_body_that_fails_keeps_what_it_recorded(studio: Studio) -> None:
    def body() -> None:
        studio.get(1)
        studio.get(2)
        raise KeyError("late")

    made = studio.record(_calls(studio, 1))
    with pytest.raises(KeyError):
        studio.record(body, mode="record_missing")
    assert studio.replay(_calls(studio, 1, 2)) == [*made, {"x": 2, "n": 2}]


def test_record_missing_does_not_give_an_unfinished_recording_up(
    studio: Studio, place: dict[str, Any]
) -> None:
    studio.record(_calls(studio, 1), **place)
    _unfinish(next(iter(place.values())))
    before = studio.everything()
    with pytest.raises(RecordingUnfinished):
        studio.record(_calls(studio, 1), mode="record_missing", **place)
    assert studio.everything() == before


@pytest.mark.parametrize(
    "spoil,error", [(_damage, RecordingDamaged), (_from_the_future, RecordingTooNew)]
)
def test_record_missing_does_not_add_to_what_it_cannot_read(
    studio: Studio,
    place: dict[str, Any],
    spoil: Callable[[Path], None],
    error: type[RecordingError],
) -> None:
    studio.record(_calls(studio, 1), **place)
    spoil(next(iter(place.values())))
    before = studio.everything()
    with pytest.raises(error):
        studio.record(_calls(studio, 1), mode="record_missing", **place)
    assert studio.everything() == before


# rewrite


def test_rewrite_replaces(studio: Studio, place: dict[str, Any]) -> None:
    studio.record(_calls(studio, 1, 2), **place)
    new = studio.record(_calls(studio, 1), mode="rewrite", **place)
    assert studio.replay(_calls(studio, 1), **place) == new
    assert studio.asked == 3


def test_rewrite_records_where_there_is_nothing(studio: Studio, place: dict[str, Any]) -> None:
    new = studio.record(_calls(studio, 1), mode="rewrite", **place)
    assert studio.replay(_calls(studio, 1), **place) == new


def test_rewrite_of_a_body_that_fails_keeps_the_old_one(
    studio: Studio, place: dict[str, Any]
) -> None:
    studio.record(_calls(studio, 1, 2), **place)
    before = studio.everything()
    with pytest.raises(ZeroDivisionError):
        studio.record(lambda: [studio.get(1), 1 / 0], mode="rewrite", **place)
    assert studio.everything() == before
    assert [text for text in studio.warnings if "stays as it was" in text] == studio.warnings


def test_the_old_recording_is_there_until_the_rewrite_ends(
    studio: Studio, place: dict[str, Any]
) -> None:
    old = studio.record(_calls(studio, 1), **place)
    with studio.session(mode="rewrite", **place):
        new = [studio.get(1)]
        with studio.session(mode="replay", strict=True, **place):
            assert [studio.get(1)] == old
    assert studio.replay(_calls(studio, 1), **place) == new


def test_rewrite_replaces_even_what_cannot_be_read(studio: Studio, place: dict[str, Any]) -> None:
    studio.record(_calls(studio, 1), **place)
    _damage(next(iter(place.values())))
    new = studio.record(_calls(studio, 1), mode="rewrite", **place)
    assert studio.replay(_calls(studio, 1), **place) == new
