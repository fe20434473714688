"""What is noted of files under declared roots, what is not, and what a replay makes of it."""

from __future__ import annotations

import builtins
import gc
import glob
import io
import os
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.errors import CapabilityDenied, DivergenceError
from reenact.policy.model import BoundaryRule, CapabilityRule, Files, Policy

CONTENT = Policy(id="p", files=Files(("data",), content=True))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a").write_text("first")
    return folder


def _session(folder: Path, mode: str = "record", **more: Any) -> reenact.Session:
    given = {"capture": folder.parent / "c", "root": folder.parent, "strict": True}
    if "policy" not in more:
        given["files"] = ["data"]
    return reenact.session(mode=mode, **{**given, **more})


def _noted(folder: Path) -> list[str]:
    """``read data/a``, ``file_write data/a``: what was done, in order."""
    with reenact.open_recording(folder.parent / "c") as source:
        return [
            f"{event.data['type']} {event.data['details'].get('path', '')}"
            if event.type == "state_mutation"
            else event.data["op"]
            for event in source
        ]


def _everything() -> list[Any]:
    names = "open close listdir scandir truncate rename replace remove unlink".split()
    can = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks)
    return [
        builtins.open,
        io.open,
        *(getattr(os, name) for name in names),
        *map(frozenset, can),
        list(gc.callbacks),
        getattr(getattr(glob, "_StringGlobber", None), "scandir", None),
    ]


def test_everything_is_put_back(data: Path) -> None:
    before = _everything()
    with _session(data):
        assert all(now != then for now, then in zip(_everything()[:11], before[:11], strict=True))
    assert _everything() == before


def test_by_descriptors(data: Path) -> None:
    with _session(data):
        fd = os.open(data / "a", os.O_RDONLY)
        assert os.read(fd, 3) == b"fir"
        os.close(fd)
        fd = os.open(data / "b", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"x")
        os.close(fd)
        with os.fdopen(os.open(data / "b", os.O_RDWR), "r+") as file:
            assert file.read() == "x"
            file.write("y")
        os.truncate(data / "b", 1)
    assert _noted(data) == [
        "read data/a",
        "file_write data/b",
        "read data/b",
        "file_write data/b",
        "file_write data/b",
    ]
    assert (data / "b").read_text() == "x"


def test_a_number_that_another_file_has_got_meanwhile(data: Path, tmp_path: Path) -> None:
    with _session(data):
        fd = os.open(data / "b", os.O_WRONLY | os.O_CREAT)
        os.closerange(fd, fd + 1)  # behind our back
        other = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)
        assert other == fd
        os.close(other)
    assert _noted(data) == []


def test_a_tree_that_is_removed(data: Path) -> None:
    tree = data / "tree"
    (tree / "inner").mkdir(parents=True)
    for name in ("x", "inner/y"):
        (tree / name).touch()
    with _session(data):
        assert {os.open, os.unlink} <= os.supports_dir_fd
        assert os.scandir in os.supports_fd
        shutil.rmtree(tree)
    assert sorted(_noted(data)) == [
        "file_delete data/tree/inner/y",
        "file_delete data/tree/x",
        "list data/tree",
        "list data/tree/inner",
    ]


def test_names_that_are_no_text(data: Path) -> None:
    place = os.fsencode(data) + b"/caf\xe9"
    with _session(data):
        with open(place, "w", encoding="utf-8") as file:
            file.write("x")
        recorded = os.listdir(data), os.listdir(os.fsencode(data))
        assert "caf\udce9" in recorded[0]
        assert b"caf\xe9" in recorded[1]
        assert {entry.name for entry in os.scandir(os.fsencode(data))} == set(recorded[1])
    assert _noted(data)[0] == "file_write data/caf\\xe9"
    with _session(data, "replay", unused="allow"):
        with open(place, "w", encoding="utf-8") as file:
            file.write("x")
        assert (os.listdir(data), os.listdir(os.fsencode(data))) == recorded


def test_a_root_by_another_name(data: Path, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    with _session(data, root=tmp_path / "link"):
        open("data/a", encoding="utf-8").close()
        open(tmp_path / "link" / "data" / "a", encoding="utf-8").close()
        open("data/../data/./a", encoding="utf-8").close()
        os.chdir("data")
        open("a", encoding="utf-8").close()
    read = "read data/a"
    assert _noted(data) == [read, read, read, f"cwd_change {data}", read]


def test_a_link_inside_leads_where_it_leads(data: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("out")
    (data / "link").symlink_to(tmp_path / "outside")
    with _session(data):
        (data / "link").read_text()
        (tmp_path / "outside").read_text()
    assert _noted(data) == ["read data/link"]
    (tmp_path / "outside").write_text("other")
    with pytest.raises(DivergenceError, match="read data/link"), _session(data, "replay"):
        (data / "link").read_text()


def test_pipes_and_devices_are_not_looked_at(data: Path) -> None:
    os.mkfifo(data / "pipe")
    with _session(data):
        reading = os.open(data / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        writing = os.open(data / "pipe", os.O_WRONLY)
        os.close(writing)
        os.close(reading)
    assert _noted(data) == []


def test_a_large_file_is_never_in_memory(data: Path) -> None:
    with open(data / "large", "wb") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    with _session(data):
        (data / "large").open("rb").close()
        os.rename(data / "large", data / "larger")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20
    assert _noted(data) == ["read data/large", "file_rename data/large"]


def test_many_small_writes_are_one_change(data: Path) -> None:
    with _session(data), open(data / "b", "w", encoding="utf-8", buffering=1) as file:
        for number in range(100):
            print(number, file=file)
    assert _noted(data) == ["file_write data/b"]


def test_what_is_appended_counts_and_not_what_was_there(data: Path) -> None:
    def append() -> None:
        with open(data / "log", "a", encoding="utf-8") as file:
            file.write("one\n")
            file.flush()
            file.write("two\n")
        with open(data / "log", "ab", buffering=0) as raw:
            raw.write(memoryview(b"three\n"))

    with _session(data):
        append()
    with _session(data, "replay"):
        append()
    assert (data / "log").read_text() == "one\ntwo\nthree\n" * 2
    assert _noted(data) == ["file_append data/log"] * 2
    with (
        pytest.raises(DivergenceError, match="file_append data/log"),
        _session(data, "replay"),
        open(data / "log", "a", encoding="utf-8") as file,
    ):
        file.write("something else")


def test_a_file_that_nobody_closes_is_noted_when_it_is_dropped(data: Path) -> None:
    with _session(data), pytest.warns(ResourceWarning, match="unclosed file"):
        open(data / "b", "w", encoding="utf-8").write("dropped")  # noqa: SIM115
    assert _noted(data) == ["file_write data/b"]


def test_when_the_garbage_collector_finds_a_file_is_chance(data: Path) -> None:
    with _session(data):
        ring: list[Any] = [open(data / "b", "w", encoding="utf-8")]  # noqa: SIM115
        ring.append(ring)
        del ring
        with pytest.warns(ResourceWarning, match="unclosed file"):
            gc.collect()
    assert _noted(data) == []


def test_a_file_that_outlives_its_session(data: Path) -> None:
    with _session(data):
        file = open(data / "b", "w", encoding="utf-8")  # noqa: SIM115
        fd = os.open(data / "d", os.O_WRONLY | os.O_CREAT)
    file.close()
    os.close(fd)
    assert _noted(data) == []


@pytest.mark.parametrize("change", ["write", "append", "low", "rename", "remove", "truncate"])
def test_what_the_policy_denies_does_not_happen(data: Path, change: str) -> None:
    acts: dict[str, Any] = {
        "write": lambda: open(data / "a", "w", encoding="utf-8"),  # noqa: SIM115
        "append": lambda: open(data / "a", "a", encoding="utf-8"),  # noqa: SIM115
        "low": lambda: os.open(data / "a", os.O_WRONLY | os.O_TRUNC),
        "rename": lambda: os.rename(data / "a", data / "b"),
        "remove": lambda: os.remove(data / "a"),
        "truncate": lambda: os.truncate(data / "a", 0),
    }
    policy = Policy(
        id="p", files=Files(("data",)), capabilities={"fs.read": CapabilityRule(allow=True)}
    )
    with _session(data, policy=policy):
        with pytest.raises(CapabilityDenied, match=r"does not allow fs\.write"):
            acts[change]()
        assert (data / "a").read_text() == "first"
    assert _noted(data) == ["read data/a"]


def test_reading_may_be_denied(data: Path) -> None:
    rule = BoundaryRule(capability="fs.read", operation="read data/s*", action="block")
    policy = Policy(id="p", files=Files(("data",)), boundaries=(rule,))
    (data / "secret").touch()
    with _session(data, policy=policy):
        (data / "a").read_text()
        with pytest.raises(CapabilityDenied, match=r"blocks fs\.read read data/secret"):
            open(data / "secret", encoding="utf-8")  # noqa: SIM115


def test_what_was_removed_or_moved_in_the_recording_may_be_gone(data: Path) -> None:
    def act() -> None:
        os.rename(data / "a", data / "b")
        os.remove(data / "d")

    (data / "d").touch()
    with _session(data):
        act()
    with _session(data, "replay"):
        act()
    with _session(data, "replay", strict=False, unused="allow"), pytest.raises(FileNotFoundError):
        os.remove(data / "e")


def test_kept_content_stands_in_for_what_is_gone(data: Path) -> None:
    def act() -> list[Any]:
        found = [entry.name for entry in os.scandir(data) if entry.is_file()]
        with open(data / "a", encoding="utf-8") as file:
            return [found, os.listdir(data), file.name, file.mode, file.read(), type(file.buffer)]

    with _session(data, policy=CONTENT):
        recorded = act()
    shutil.rmtree(data)
    with _session(data, "replay", policy=CONTENT):
        assert act() == recorded
    data.mkdir()
    (data / "a").write_text("other")
    with (
        pytest.raises(DivergenceError, match="read data/a"),
        _session(data, "replay", policy=CONTENT),
    ):
        act()


def test_a_lenient_replay_counts_each_file_that_differs_once(data: Path) -> None:
    def act() -> list[str]:
        return [(data / name).read_text() for name in ("a", "b", "a")]

    (data / "b").write_text("second")
    with _session(data):
        act()
    (data / "a").write_text("other")
    with _session(data, "replay", strict=False) as session:
        assert act() == ["other", "second", "other"]
    found = [one.detail.split()[4] for one in session.machine.divergences]
    assert found == ["data/a", "data/a"]


def test_one_file_more_than_there_were(data: Path) -> None:
    with _session(data):
        pass
    with pytest.raises(DivergenceError) as caught, _session(data, "replay"):
        (data / "a").read_text()
    assert "event_unexpected" in str(caught.value)
    assert "nothing left for the call fs read data/a" in str(caught.value)


def test_a_recording_is_completed_with_what_is_read_now(data: Path) -> None:
    with _session(data):
        (data / "a").read_text()
    (data / "b").write_text("second")
    with _session(data, "record_missing"):
        (data / "a").read_text()
        (data / "b").read_text()
    assert _noted(data) == ["read data/a", "read data/b"]


def test_what_passes_by_is_not_read_from_the_recording(data: Path) -> None:
    with _session(data, policy=CONTENT):
        (data / "a").read_text()
    (data / "a").unlink()
    rule = BoundaryRule(capability="fs.*", action="pass")
    policy = Policy(id="p", files=Files(("data",), content=True), boundaries=(rule,))
    with _session(data, "replay", policy=policy, unused="allow"), pytest.raises(FileNotFoundError):
        (data / "a").read_text()


def test_a_rule_lets_files_pass_by(data: Path) -> None:
    rule = BoundaryRule(capability="fs.*", action="pass")
    policy = Policy(id="p", files=Files(("data",)), boundaries=(rule,))
    with _session(data, policy=policy):
        (data / "a").write_text("x")
        assert (data / "a").read_text() == "x"
    assert _noted(data) == []
