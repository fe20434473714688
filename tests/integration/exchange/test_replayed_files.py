"""Files in replays of exchanges: changed only where the app allows it."""

import contextlib
import ctypes
import importlib
import io
import logging
import logging.handlers
import os
import queue
import shutil
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from reenact.errors import CapabilityDenied, UsageError
from reenact.exchange import Message
from tests.integration.exchange.apps import replay


def _append(path):
    with open(path, "a", encoding="utf-8") as file:
        file.write("more")


def _by_descriptor(path):
    os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))


def _in_folder(path):
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.close(os.open(path.name, os.O_WRONLY | os.O_TRUNC, dir_fd=folder))
    finally:
        os.close(folder)


def _by_io(path):
    io.FileIO(path, "w").close()


def _copied(path):
    shutil.copyfile(__file__, path)


def _replaced(path):
    handle, name = tempfile.mkstemp()
    os.close(handle)
    os.replace(name, path)


def _around(path):
    """A path that begins in the scratch folder and ends outside of it."""
    (path.parent / "scratch" / ".." / path.name).write_text("changed")


def _through_a_link(path):
    link = path.parent / "scratch" / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    link.write_text("changed")


def _second_name(path):
    name = path.parent / "scratch" / "name"
    name.unlink(missing_ok=True)
    os.link(path, name)
    name.write_text("changed")


CHANGES = {
    "appending": _append,
    "writing with pathlib": lambda path: path.write_text("changed"),
    "creating": lambda path: path.with_name("new").open("x").close(),
    "os.open": _by_descriptor,
    "os.open in a folder": _in_folder,
    "io.FileIO": _by_io,
    "truncating": lambda path: os.truncate(path, 0),
    "renaming": lambda path: path.rename(path.with_name("other")),
    "moving it into the scratch folder": lambda path: shutil.move(path, path.parent / "scratch"),
    "replacing it with a temporary file": _replaced,
    "copying over it": _copied,
    "deleting": lambda path: path.unlink(),
    "deleting its folder": lambda path: shutil.rmtree(path.parent / "folder"),
    "os.mkdir": lambda path: os.mkdir(path.with_name("new")),
    "os.mkfifo": lambda path: os.mkfifo(path.with_name("new")),
    "linking": lambda path: os.link(path, path.with_name("new")),
    "symbolic link": lambda path: path.with_name("new").symlink_to(path),
    "changing its mode": lambda path: path.chmod(0o600),
    "changing its times": lambda path: os.utime(path, (1, 1)),
    "path with ..": _around,
    "link in the scratch folder": _through_a_link,
    "second name in the scratch folder": _second_name,
}
CHANGE = pytest.mark.parametrize("name", CHANGES)


@pytest.fixture
def tree(tmp_path):
    """Made before each run: what a change finds."""

    def make():
        root = tmp_path / "app"
        shutil.rmtree(root, ignore_errors=True)
        (root / "scratch").mkdir(parents=True)
        (root / "folder").mkdir()
        (root / "folder" / "inside").write_text("kept")
        path = root / "orders.txt"
        path.write_text("first")
        path.chmod(0o644)
        return path

    return make


def _state(path):
    """Everything outside the scratch folder."""
    root = path.parent
    return {
        str(one.relative_to(root)): (
            one.lstat().st_mode,
            one.lstat().st_mtime_ns if one.is_file() else 0,
            one.read_bytes() if one.is_file() else b"",
        )
        for one in sorted(root.rglob("*"))
        if root / "scratch" not in (one, *one.parents)
    }


@pytest.fixture
def run(make_agent, tree, tmp_path):
    """Records ``change`` of a new tree, and replays it with another one."""

    def run(change, *, boundaries="recorded", **how):
        agent = make_agent(**how)
        where: dict[str, object] = {}

        @agent.route("files")
        def files(message: Message) -> None:
            change(where["path"])

        where["path"] = tree()
        files({})
        [exchange] = agent.kept.exchanges()
        where["path"] = path = tree()
        before = _state(path)
        found = replay(agent, exchange, tmp_path / "replayed", boundaries=boundaries).exchange
        return found, before, _state(path)

    return run


@CHANGE
def test_replay_refuses_to_change_a_file_outside_the_scratch_folder(run, tmp_path, name):
    found, before, after = run(CHANGES[name], scratch=[tmp_path / "app" / "scratch"])
    assert after == before
    [divergence] = found.replay.divergences
    assert divergence["observed"]["operation"].startswith(f"fs.write {tmp_path / 'app'}/")
    assert str(tmp_path / "app") in divergence["detail"]
    assert "scratch=[" in divergence["hint"]
    assert (found.status, found.error.type) == ("failed", "reenact.errors.DivergenceError")


@CHANGE
def test_app_that_allows_files_changes_them_in_a_replay(run, name):
    found, before, after = run(CHANGES[name], files="allow")
    assert (found.replay.divergences, found.status) == ((), "completed")
    assert found.replay.containment.files == "allow"
    assert after != before


@pytest.mark.parametrize("boundaries", ["recorded", "recorded_then_live"])
def test_files_are_contained_with_both_kinds_of_recorded_boundaries(run, boundaries):
    found, before, after = run(_append, boundaries=boundaries)
    assert after == before
    assert len(found.replay.divergences) == 1


def test_live_replay_changes_files(run):
    found, before, after = run(_append, boundaries="live")
    assert after != before
    assert found.replay.containment.files == "allow"


def test_refused_write_that_the_app_swallows_is_a_divergence(run):
    def change(path):
        try:
            _append(path)
        except BaseException:
            return

    found, before, after = run(change)
    assert after == before
    assert found.status == "completed"
    assert [one["observed"]["operation"] for one in found.replay.divergences]


def _in_scratch(path):
    folder = path.parent / "scratch" / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "one").write_text("1")
    (folder / "one").rename(folder / "two")
    shutil.copytree(folder, path.parent / "scratch" / "c")
    shutil.rmtree(path.parent / "scratch" / "a")


def _temporary(path):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "deep").mkdir()
        Path(folder, "deep", "one").write_text("1", encoding="utf-8")
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write("1")
        file.flush()
        _append(file.name)
    with tempfile.TemporaryFile() as file:
        file.write(b"1")
    with tempfile.SpooledTemporaryFile(max_size=1) as file:
        file.write(b"123")


def _reading(path):
    assert path.read_text() == "first"
    assert os.listdir(path.parent)
    os.close(os.open(path, os.O_RDONLY))
    path.parent.mkdir(parents=True, exist_ok=True)
    Path(path.parent, "missing").unlink(missing_ok=True)


def _streams(path):
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8") as file:
        file.write("1")
    os.close(reading)
    with open(os.devnull, "w", encoding="utf-8") as file:
        file.write("1")


@pytest.mark.parametrize("change", [_in_scratch, _temporary, _reading, _streams])
def test_replay_allows_scratch_folders_temporary_files_and_reading(run, tmp_path, change):
    found, before, after = run(change, scratch=[tmp_path / "app" / "scratch"])
    assert (found.replay.divergences, found.status, found.error) == ((), "completed", None)
    assert after == before


def test_temporary_file_outside_the_temporary_folder_is_refused(run):
    def change(path):
        with tempfile.NamedTemporaryFile(dir=path.parent):
            pass

    found, before, after = run(change)
    assert after == before
    assert len(found.replay.divergences) == 1


def test_existing_file_in_the_temporary_folder_is_not_changed(run):
    handle, name = tempfile.mkstemp()
    os.close(handle)
    try:
        found, _, _ = run(lambda path: _append(name))
        assert Path(name).read_text(encoding="utf-8") == "more"  # from the recorded run
        assert len(found.replay.divergences) == 1
    finally:
        os.unlink(name)


def test_descriptor_that_was_opened_before_the_replay_cannot_become_a_file(run, tree):
    """``open(fd)`` names the file; ``os.write(fd)`` cannot be seen."""
    root = tree().parent
    kept = root.parent / "kept"
    fd = os.open(kept, os.O_WRONLY | os.O_CREAT)
    try:
        found, _, _ = run(lambda path: open(fd, "w", encoding="utf-8", closefd=False).close())
        [divergence] = found.replay.divergences
        assert str(kept) in divergence["detail"]
    finally:
        os.close(fd)


def test_file_object_that_was_opened_before_the_replay_is_written(run, tmp_path):
    """The limit that the guide states: the hook does not see it."""
    with (tmp_path / "kept").open("w") as file:

        def change(path):
            file.write("line\n")
            file.flush()

        found, _, _ = run(change)
    assert found.replay.divergences == ()
    assert (tmp_path / "kept").read_text() == "line\n" * 2


def test_file_that_a_library_in_c_opens_is_written(run, tmp_path):
    """The other limit that the guide states."""
    libc = ctypes.CDLL(None)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND

    def change(path):
        fd = libc.open(os.fsencode(tmp_path / "by-c"), flags, 0o600)
        os.write(fd, b"1")
        os.close(fd)

    found, _, _ = run(change)
    assert (found.replay.divergences, found.status) == ((), "completed")
    assert (tmp_path / "by-c").read_bytes() == b"11"


def test_worker_outside_the_replay_cannot_change_a_file_for_it(run, tmp_path):
    jobs: queue.Queue[queue.Queue[str] | None] = queue.Queue()
    kept = tmp_path / "kept"

    def work():
        while (done := jobs.get()) is not None:
            try:
                _append(kept)
            except Exception as error:
                done.put(type(error).__name__)
            else:
                done.put("")

    worker = threading.Thread(target=work)
    worker.start()

    def change(path):
        done: queue.Queue[str] = queue.Queue()
        jobs.put(done)
        assert done.get() in ("", "CapabilityDenied")

    try:
        found, _, _ = run(change)
    finally:
        jobs.put(None)
        worker.join()
    assert kept.read_text() == "more"  # from the recorded run
    [divergence] = found.replay.divergences
    assert str(kept) in divergence["detail"]


class _Asked:
    """A worker thread that appends to a file each time that ``ask`` is called."""

    def __init__(self, file, wait):
        self._file, self._wait = file, wait
        self._over = False
        self.done = threading.Lock()
        self.done.acquire()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self):
        while self._wait() and not self._over:
            with contextlib.suppress(CapabilityDenied):
                _append(self._file)
            self.done.release()

    def end(self, ask):
        self._over = True
        ask()
        self._thread.join()


def test_worker_that_waits_for_a_signal_of_a_replay_cannot_change_a_file_for_it(run, tmp_path):
    kept, asked = tmp_path / "kept", threading.Semaphore(0)
    worker = _Asked(kept, asked.acquire)

    def change(path):
        while not asked._cond._waiters:  # type: ignore[attr-defined]
            pass
        asked.release()
        worker.done.acquire()

    try:
        found, _, _ = run(change)
    finally:
        worker.end(asked.release)
    assert kept.read_text() == "more"  # from the recorded run
    [divergence] = found.replay.divergences
    assert str(kept) in divergence["detail"]


def test_worker_that_gets_work_without_a_queue_or_signal_is_not_contained(run, tmp_path):
    """The third limit that the guide states."""
    kept, asked = tmp_path / "kept", threading.Lock()
    asked.acquire()
    worker = _Asked(kept, asked.acquire)

    def change(path):
        asked.release()
        worker.done.acquire()

    try:
        found, _, _ = run(change)
    finally:
        worker.end(asked.release)
    assert kept.read_text() == "more" * 2
    assert found.replay.divergences == ()


@pytest.mark.parametrize("kind", ["delayed", "rotating"])
def test_log_handlers_open_and_rotate_their_files_in_a_replay(run, tmp_path, kind):
    file = tmp_path / "app.log"
    if kind == "delayed":
        handler = logging.FileHandler(file, delay=True)
    else:
        handler = logging.handlers.RotatingFileHandler(file, maxBytes=1, backupCount=3)
    logger = logging.getLogger(f"test.{kind}")
    logger.addHandler(handler)
    logger.propagate = False

    def change(path):
        handler.close()
        logger.error("a line")

    try:
        found, _, _ = run(change)
    finally:
        logger.removeHandler(handler)
        handler.close()
    assert (found.replay.divergences, found.status) == ((), "completed")
    assert sum(one.read_text().count("a line") for one in tmp_path.glob("app.log*")) == 2


def test_import_in_a_replay_writes_its_bytecode(run, tmp_path, monkeypatch):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "lazy_one.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)

    def change(path):
        sys.modules.pop("lazy_one", None)
        shutil.rmtree(tmp_path / "modules" / "__pycache__", ignore_errors=True)
        assert importlib.import_module("lazy_one").VALUE == 1

    found, _, _ = run(change, scratch=[tmp_path / "modules" / "__pycache__"])
    assert (found.replay.divergences, found.status, found.error) == ((), "completed", None)


@pytest.mark.parametrize(
    "how, words",
    [
        ({"files": "no"}, "files='no' is not a treatment of files"),
        ({"scratch": "/tmp"}, "scratch is a list of folders"),
        ({"scratch": ["tmp"]}, "the scratch folder 'tmp' is a relative path"),
    ],
)
def test_agent_names_what_is_wrong_with_its_folders(make_agent, how, words):
    with pytest.raises(UsageError) as caught:
        make_agent(**how)
    assert words in str(caught.value)
