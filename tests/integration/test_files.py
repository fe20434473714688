"""Programs that read and write under declared roots: what changed meanwhile is named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.policy.index import pinned_index
from tests.integration.running import Ran, Theatre, reenact_command

pytestmark = pytest.mark.slow

PROGRAM = """
    import configparser, io, os, shutil
    from pathlib import Path

    print(open("data/a.txt").read(), Path("data/b.txt").read_text(), io.open("data/a.txt", "rb").read())
    print(os.listdir("data"), [path.name for path in Path("data").iterdir()])
    print([str(path) for path in Path("data").glob("*.txt")], list(os.walk("data")))
    try:
        open("data/missing.txt")
    except FileNotFoundError as error:
        print(error)
    with open("data/new.txt", "w", encoding="utf-8") as file:
        print(type(file), type(file.buffer), file.mode, file.name, file.encoding, file.closed)
        file.write("written\\n")
    with open("data/new.txt", "r+b", buffering=0) as file:
        print(file.read(), file.write(b"more"))
    Path("data/beside").write_bytes(b"0" * 300)
    os.replace("data/beside", "data/last")
    print(open("outside.txt").read(), shutil.copy("data/a.txt", "data/copy"))
    for name in ("new.txt", "last", "copy"):
        os.unlink(f"data/{name}")
"""

INDEX = {
    "schemaVersion": "reenact.index@1",
    "policies": [{"id": "default", "path": "policies/p.json"}],
}


@pytest.fixture(autouse=True)
def _program(theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)
    theatre.write("data/a.txt", "first")
    theatre.write("data/b.txt", "second")
    theatre.write("outside.txt", "one")
    _declare(theatre, roots=["data"])


def _declare(theatre: Theatre, **files: Any) -> None:
    policy = {"schemaVersion": "reenact.policy@1", "id": "default", "files": files}
    theatre.write(".reenact/index.json", json.dumps(INDEX))
    theatre.write(".reenact/policies/p.json", json.dumps(policy))
    pinned, _ = pinned_index(theatre.folder)
    assert pinned is not None
    (theatre.folder / ".reenact" / "index.json").write_bytes(pinned)


def _events(theatre: Theatre) -> list[tuple[str, Any]]:
    with reenact.open_recording(theatre.folder / "c") as source:
        return [(event.type, event.data) for event in source]


def test_the_same_files_give_the_same_run(theatre: Theatre) -> None:
    recorded = theatre.check("program.py")
    assert recorded.code == 0
    assert b"first second b'first'" in recorded.out


SURROUNDINGS: dict[str, dict[str, str]] = {
    "hash seed 5, Kathmandu": {"PYTHONHASHSEED": "5", "TZ": "Asia/Kathmandu"},
    "hash seed 77, C": {"PYTHONHASHSEED": "77", "LC_ALL": "C", "TZ": "America/St_Johns"},
    "nowhere": {"TZ": "", "LC_ALL": "", "LANG": ""},
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_in_other_surroundings(theatre: Theatre, surroundings: str) -> None:
    recorded = theatre.record("program.py", LC_ALL="C.UTF-8")
    replayed = theatre.replay("program.py", **SURROUNDINGS[surroundings])
    assert replayed.own == recorded.own


def test_what_is_recorded(theatre: Theatre) -> None:
    assert theatre.record("program.py").code == 0
    events = _events(theatre)
    reads = [data for _, data in events if data.get("source") == "fs"]
    assert [data["op"] for data in reads[:4]] == [
        "read data/a.txt",
        "read data/b.txt",
        "read data/a.txt",
        "list data",
    ]
    assert reads[0]["request"]["size"] == 5
    assert not any("response" in data for data in reads if data["op"].startswith("read"))
    assert not any("outside" in data["op"] for data in reads)
    written = [data for kind, data in events if kind == "state_mutation"]
    assert [(data["type"], data["details"]["path"]) for data in written] == [
        ("file_write", "data/new.txt"),
        ("file_write", "data/new.txt"),
        ("file_write", "data/beside"),
        ("file_rename", "data/beside"),
        ("file_write", "data/copy"),
        ("file_delete", "data/new.txt"),
        ("file_delete", "data/last"),
        ("file_delete", "data/copy"),
    ]
    assert written[3]["details"]["to"] == "data/last"
    assert written[3]["details"]["size"] == 300


def test_it_can_be_shown_and_verified(theatre: Theatre) -> None:
    assert theatre.record("program.py").code == 0
    said = {
        command: subprocess.run(
            reenact_command(command, "c", *more),
            cwd=theatre.folder,
            capture_output=True,
            check=True,
        ).stdout.decode()
        for command, *more in (("show", "--width", "0"), ("verify",), ("stats",))
    }
    for line in (
        'read data/a.txt {"digest": ',
        'list data {"names": ["a.txt", ',
        "read data/missing.txt {",
        "file_write data/new.txt {",
        "file_delete data/new.txt\n",
    ):
        assert line in said["show"]
    assert "c: ok," in said["verify"]
    assert re.search(r"state_mutation +8\n", said["stats"])


def test_the_content_is_kept_where_the_policy_says_so(theatre: Theatre) -> None:
    _declare(theatre, roots=["data"], content=True)
    theatre.check("program.py")
    reads = [data for _, data in _events(theatre) if data.get("op", "").startswith("read ")]
    assert [data.get("response") for data in reads[:2]] == ["first", "second"]


def _change(folder: Path) -> None:
    (folder / "a.txt").write_text("other")


def _remove(folder: Path) -> None:
    (folder / "b.txt").unlink()


def _add(folder: Path) -> None:
    (folder / "c.txt").write_text("third")


def _appear(folder: Path) -> None:
    (folder / "missing.txt").write_text("there now")


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "changed": (_change, "read data/a.txt"),
    "gone": (_remove, "read data/b.txt"),
    "new": (_add, "c.txt"),
    "new where it was missed": (_appear, "missing.txt"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_differs_is_a_divergence_that_names_it(theatre: Theatre, change: str) -> None:
    act, named = CHANGES[change]
    assert theatre.record("program.py").code == 0
    act(theatre.folder / "data")
    replayed = theatre.replay("program.py")
    assert replayed.code == 1
    assert "event_payload_mismatch" in replayed.err
    assert named in replayed.err
    assert "Put it back as the program found it" in replayed.err


def test_another_text_that_is_written_is_a_divergence(theatre: Theatre) -> None:
    assert theatre.record("program.py").code == 0
    theatre.write("program.py", PROGRAM.replace("written", "scribbled"))
    replayed = theatre.replay("program.py")
    assert replayed.code == 1
    assert "The state mutation file_write data/new.txt differs" in replayed.err


def test_a_lenient_replay_goes_on_with_what_is_there(theatre: Theatre) -> None:
    assert theatre.record("program.py").code == 0
    _change(theatre.folder / "data")
    replayed = _lenient(theatre)
    assert replayed.code == 0
    assert replayed.out.startswith(b"other second")
    assert "read data/a.txt" in replayed.err


def _lenient(theatre: Theatre) -> Ran:
    words = ("--replay", "c", "--lenient", "--", sys.executable, "program.py")
    return theatre.run(*words)


def test_files_that_were_not_declared_may_change(theatre: Theatre) -> None:
    assert theatre.record("program.py").code == 0
    theatre.write("outside.txt", "two")
    replayed = theatre.replay("program.py")
    assert replayed.code == 0
    assert b"two" in replayed.out


STATEFUL = """
    import json, os
    from pathlib import Path

    place = Path("data/state.json")
    state = json.loads(place.read_text())
    try:
        print("cached", open("data/cache.txt").read())
    except FileNotFoundError as error:
        print(error)
        Path("data/cache.txt").write_text("made once")
    print(state, sorted(os.listdir("data")), [path.name for path in Path("data").glob("*.txt")])
    state["runs"] += 1
    beside = Path("data/state.json.new")
    beside.write_text(json.dumps(state))
    os.replace(beside, place)
    with open("data/log.txt", "a") as log:
        print("run", state["runs"], file=log)
    os.remove("data/a.txt")
    print(place.read_text())
"""


def _stateful(theatre: Theatre, **files: Any) -> Ran:
    _declare(theatre, roots=["data"], **files)
    theatre.write("stateful.py", STATEFUL)
    theatre.write("data/state.json", '{"runs": 1}')
    recorded = theatre.record("stateful.py")
    assert recorded.code == 0
    assert b"'runs': 1" in recorded.out
    return recorded


def test_a_program_that_changes_its_files_is_replayed_where_it_left_them(theatre: Theatre) -> None:
    recorded = _stateful(theatre, content=True)
    for _ in range(2):
        replayed = theatre.replay("stateful.py")
        assert replayed.own == recorded.own
        assert ", 0 live, 0 unused" in replayed.summary


def test_without_the_content_they_have_to_be_put_back(theatre: Theatre) -> None:
    recorded = _stateful(theatre)
    replayed = theatre.replay("stateful.py")
    assert replayed.code == 1
    assert "The call fs read data/state.json differs" in replayed.err
    assert '"files": {"content": true}' in " ".join(replayed.err.split())
    for name in ("cache.txt", "log.txt"):
        (theatre.folder / "data" / name).unlink()
    theatre.write("data/state.json", '{"runs": 1}')
    theatre.write("data/a.txt", "first")
    assert theatre.replay("stateful.py").own == recorded.own


def test_a_file_that_is_gone_is_read_from_the_recording(theatre: Theatre) -> None:
    _declare(theatre, roots=["data"], content=True)
    theatre.write(
        "program.py",
        """
        import mmap, os
        from pathlib import Path

        with open("data/a.txt", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as m:
            print(file.name, m[:3], file.read(), file.seek(1), file.read())
        print(Path("data/b.txt").read_text(), open("data/b.txt").name)
        fd = os.open("data/a.txt", os.O_RDONLY)
        print(os.read(fd, 100))
        os.close(fd)
        """,
    )
    recorded = theatre.record("program.py")
    for name in ("a.txt", "b.txt"):
        (theatre.folder / "data" / name).unlink()
    assert theatre.replay("program.py").own == recorded.own
    _change(theatre.folder / "data")
    assert "The call fs read data/a.txt differs" in theatre.replay("program.py").err


def test_a_root_that_holds_the_recording_itself(theatre: Theatre) -> None:
    _declare(theatre, roots=["."])
    theatre.write(
        "data/listing.py", "import os; print(sorted(os.listdir('data')), os.listdir('.')[-2:])"
    )
    assert theatre.check("data/listing.py").code == 0
    (theatre.folder / "c").rename(theatre.folder / "moved")
    assert theatre.replay("data/listing.py", name="moved").code == 0


def test_a_kill_before_a_file_is_closed_leaves_what_was_noted(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import os, signal

        with open("data/one", "w") as file:
            file.write("whole")
        file = open("data/two", "w")
        file.write("part")
        file.flush()
        print("killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    recorded = theatre.record("program.py")
    assert recorded.code != 0
    written = [data for kind, data in _events(theatre) if kind == "state_mutation"]
    assert [data["details"]["path"] for data in written] == ["data/one"]
    assert theatre.replay("program.py").out == recorded.out == b"killed\n"


TOGETHER = """
    import asyncio, os, threading
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    def work(number):
        with open(f"data/{number}", "w") as file:
            file.write(str(number) * 9000)
        with open("data/log", "a") as file:
            file.write(f"{number}\\n")
        return len(Path(f"data/{number}").read_text())

    async def main():
        read = asyncio.to_thread(Path("data/a.txt").read_text)
        print(await asyncio.gather(read, asyncio.to_thread(work, 1)))

    with ThreadPoolExecutor(3) as pool:
        print(list(pool.map(work, range(10, 15))))
    threads = [threading.Thread(target=work, args=(number,)) for number in (20, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(main())
    child = os.fork()
    if child == 0:
        work(30)
        os._exit(0)
    os.waitpid(child, 0)
    print(work(40), sorted(os.listdir("data")))
"""


def test_threads_tasks_and_forks(theatre: Theatre) -> None:
    theatre.write("program.py", TOGETHER)
    recorded = theatre.check("program.py")
    assert recorded.code == 0
    with reenact.open_recording(theatre.folder / "c") as source:
        lanes = {event.lane for event in source if event.type == "state_mutation"}
    assert len(lanes) == 5 + 2 + 1 + 1 + 1


ARCHIVES = """
    import gzip, logging, tarfile, tempfile, zipfile

    logging.basicConfig(filename="data/log", format="%(asctime)s %(message)s")
    with gzip.open("data/x.gz", "wt") as file:
        file.write("text")
    with zipfile.ZipFile("data/x.zip", "w") as archive:
        archive.writestr("a", "b")
    with tarfile.open("data/x.tgz", "w:gz") as archive:
        archive.add("data/a.txt")
    with tempfile.NamedTemporaryFile("w", dir="data") as file:
        print(file.name, gzip.open("data/x.gz", "rt").read())
    logging.warning("said")
"""


def test_archives_and_logs_have_the_times_of_the_recording(theatre: Theatre) -> None:
    theatre.write("program.py", ARCHIVES)
    assert theatre.check("program.py").code == 0
    written = [
        data["details"]["path"] for kind, data in _events(theatre) if kind == "state_mutation"
    ]
    assert written == ["data/x.gz", "data/x.zip", "data/x.tgz", "data/log"]


def test_a_net_tape_has_no_files(theatre: Theatre) -> None:
    command = (sys.executable, "program.py")
    assert theatre.run("--record-net-to", "net.jsonl", "--", *command).code == 0
    assert "data/" not in (theatre.folder / "net.jsonl").read_text("utf-8")
    _change(theatre.folder / "data")
    assert theatre.run("--replay-net-from", "net.jsonl", "--", *command).code == 0
