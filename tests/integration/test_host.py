"""Programs that ask what machine they are on, whole: a replay elsewhere prints the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from reenact import verify
from tests.conftest import SOAK
from tests.integration.running import Ran, Theatre

pytestmark = pytest.mark.slow

FACTS = """
    import getpass, locale, multiprocessing, os, platform, pwd, shutil, signal, socket, sys, threading
    from os import getpid as mine
    from pathlib import Path

    print(os.getpid() == mine(), os.getpid(), os.getppid(), os.getpgrp())
    print(socket.gethostname(), socket.getfqdn(), platform.node(), os.uname(), platform.uname())
    print(platform.platform(), platform.platform(terse=True), platform.python_version_tuple())
    print(getpass.getuser(), os.getuid(), pwd.getpwuid(os.getuid()), os.getgroups())
    print(os.cpu_count(), os.getcwd(), Path.cwd(), Path.home(), shutil.get_terminal_size())
    print(locale.setlocale(locale.LC_ALL, ""), locale.getlocale(), locale.getpreferredencoding())
    print(threading.main_thread().ident == threading.get_ident())
    print(threading.get_ident() in sys._current_frames())
    print(Path("~/x").expanduser() == Path.home() / "x", os.path.expanduser("~"))
    print(multiprocessing.current_process().pid == os.getpid())
    for missing in (os.getlogin, lambda: pwd.getpwnam("nobody at all")):
        try:
            print(missing())
        except (KeyError, OSError) as error:
            print(repr(error))

    signal.signal(signal.SIGUSR1, lambda number, frame: print("heard", number))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
    print(os.getpgid(os.getpid()) == os.getpgrp(), os.getpgid(0) == os.getpgrp())
"""

VARIABLES = """
    import os

    print(os.environ.get("COLOUR"), os.getenv("NOBODY", "nobody"), "COLOUR" in os.environ)
    print(sorted(os.environ), len(os.environ), len(dict(os.environ)), os.environb[b"COLOUR"])
    print({name: value for name, value in os.environ.items() if name != "PAINT_TOKEN"})
    try:
        os.environ["NOBODY"]
    except KeyError as error:
        print(repr(error))
    os.environ["OWN"] = "mine"
    print(os.environ["OWN"], os.environ.setdefault("COLOUR", "none"), os.environ.copy()["OWN"])
    print(os.environ.pop("COLOUR"), os.environ.get("COLOUR"), "OWN" in os.environ)
    del os.environ["OWN"]
    print(os.environ.get("OWN"))
"""

TIMES = """
    import argparse, locale, logging, sys, time
    from datetime import datetime, timezone

    logging.basicConfig(format="%(asctime)s %(process)d %(message)s", stream=sys.stdout)
    logging.warning("here")
    for moment in (0, 1e9, time.time()):
        print(time.localtime(moment), time.strftime("%c %Z", time.localtime(moment)))
        print(datetime.fromtimestamp(moment), datetime.fromtimestamp(moment).astimezone())
        print(datetime.fromtimestamp(moment, timezone.utc).astimezone().tzname())
    print(time.tzname, time.timezone, datetime.now(), time.mktime((2024, 7, 1, 12, 0, 0, 0, 0, -1)))
    print(locale.setlocale(locale.LC_ALL, ""), locale.strxfrm("a"), f"{1234567.891:n}")
    parser = argparse.ArgumentParser(prog="p")
    parser.add_argument("--long", help="many words, " * 20)
    parser.print_help()
    print(sys.stdout.encoding, ascii(sys.argv), "a\\u00e9\\u4e2d".encode(sys.stdout.encoding, "replace"))
    print({"one", "two", "three", "four"})
"""

WHERE = {
    "Tokyo in C": {"TZ": "Asia/Tokyo", "LANG": "C", "LC_ALL": "POSIX", "COLUMNS": "40"},
    "New York": {"TZ": "America/New_York", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "7"},
    "UTC by rule": {"TZ": "UTC0", "LANG": "", "PYTHONIOENCODING": "latin-1:replace"},
    "nowhere": {"TZ": "", "LC_ALL": "", "LANG": "", "COLUMNS": "", "NO_COLOR": "1"},
}


def _both(theatre: Theatre, then: dict[str, str], now: dict[str, str]) -> tuple[Ran, Ran]:
    recorded = theatre.record("program.py", **then)
    assert recorded.code == 0, recorded.err
    verify(theatre.folder / "c")
    return recorded, theatre.replay("program.py", **now)


@pytest.mark.parametrize("then", WHERE)
def test_times_and_texts_are_those_of_the_recorded_place(theatre: Theatre, then: str) -> None:
    theatre.write("program.py", TIMES)
    recorded = theatre.record("program.py", **WHERE[then])
    assert recorded.code == 0, recorded.err
    verify(theatre.folder / "c")
    places = list(WHERE)
    for now in places if SOAK else [places[places.index(then) - 1]]:
        assert theatre.replay("program.py", **WHERE[now]).own == recorded.own, now


def test_what_the_machine_is_and_who_the_process_is(theatre: Theatre) -> None:
    theatre.write("program.py", FACTS)
    recorded, replayed = _both(theatre, {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C", "HOME": "/"})
    assert replayed.own == recorded.own
    assert recorded.out.count(b"heard") == 2
    assert b"False" not in recorded.out


def test_variables_are_those_of_the_recorded_program(theatre: Theatre) -> None:
    theatre.write("program.py", VARIABLES)
    token = {"PAINT_TOKEN": "not for the record"}
    then = {"COLOUR": "blue", "SHADE": "dark", **token}
    now = {"COLOUR": "", "SHADE": "light", "TZ": "Asia/Tokyo", "NOBODY": "somebody", **token}
    recorded, replayed = _both(theatre, then, now)
    assert replayed.own == recorded.own
    assert b"blue None False nobody" not in recorded.out
    assert recorded.out.startswith(b"blue nobody True\n")


def test_a_variable_that_looks_secret_is_what_it_is(theatre: Theatre) -> None:
    theatre.write("program.py", "import os; print(os.environ.get('PAINT_TOKEN'))")
    recorded, replayed = _both(theatre, {"PAINT_TOKEN": "then"}, {"PAINT_TOKEN": "now"})
    assert (recorded.out, replayed.out) == (b"then\n", b"now\n")
    assert b"then" not in (theatre.folder / "c" / "events.jsonl").read_bytes()


def test_what_is_asked_once_more_or_not_any_more_is_no_divergence(theatre: Theatre) -> None:
    program = theatre.write(
        "program.py",
        """
        import os, time

        print(os.environ.get("COLOUR"), os.getpid(), os.environ.get("SHADE"), time.time())
        """,
    )
    recorded = theatre.record("program.py", COLOUR="blue", SHADE="dark")
    assert recorded.code == 0
    program.write_text(
        "import os, platform, time\n"
        "colours = os.getenv('COLOUR'), os.getenv('COLOUR'), os.environ['TINT']\n"
        "print(*colours, os.getpid() == os.getpid(), platform.node() == os.uname().nodename)\n"
        "print(os.getpid(), time.time())"
    )
    replayed = theatre.replay("program.py", COLOUR="red", TINT="new")
    assert (replayed.code, replayed.own[2]) == (0, "")
    _, pid, _, now = recorded.out.decode().split()
    assert replayed.out.decode() == f"blue blue new True True\n{pid} {now}\n"


ALL_WAYS = """
    import copy, os, pprint, subprocess

    print("COLOUR" in os.environ, os.environ.keys() >= {"COLOUR"}, os.environb[b"COLOUR"])
    whole = os.environ.copy()
    print(whole == os.environ, dict(os.environ) == whole, {**os.environ} == whole, len(whole))
    print((os.environ | {"A": "1"})["A"], repr(os.environ) == f"environ({whole})")
    pprint.pprint(os.environ)
    print(type(copy.deepcopy(os.environ)).__name__, copy.copy(os.environ)["COLOUR"])
    os.environ |= {"OWN": "mine"}
    print(os.environ.pop("COLOUR"), os.environ.setdefault("COLOUR", "own"), list(os.environ)[-2:])
    try:
        del os.environ["NOBODY"]
    except KeyError as error:
        print(repr(error))
    print(os.path.expandvars("$SHADE/$OWN/$NOBODY"), os.getenvb(b"SHADE"))
    for environ in (None, os.environ, {**os.environ, "MORE": "1"}, {"SHADE": "none"}):
        print(subprocess.run(["sh", "-c", "echo $SHADE"], env=environ, capture_output=True).stdout)
    os.environ.clear()
    print(len(os.environ), list(os.environ))
    os.environ.update(whole)
    print(os.environ == whole, list(os.environ) == list(whole))
"""


def test_every_way_to_read_the_environment(theatre: Theatre) -> None:
    theatre.write("program.py", ALL_WAYS)
    then = {"COLOUR": "blue", "SHADE": "dark"}
    now = {"COLOUR": "red", "SHADE": "light", "NOBODY": "somebody", "MORE": "0"}
    recorded, replayed = _both(theatre, then, now)
    assert replayed.own == recorded.own
    assert b"False" not in recorded.out


def test_libraries_that_read_settings(theatre: Theatre) -> None:
    theatre.write(".env", "SHADE=of the file\nTINT=${COLOUR}ish\n")
    theatre.write(
        "program.py",
        """
        import os
        from dotenv import load_dotenv
        from pydantic_settings import BaseSettings

        class Settings(BaseSettings):
            colour: str = "none"
            shade: str = "none"
            tint: str = "none"
            paint_token: str = "none"

        print(load_dotenv(".env"), os.environ["SHADE"], Settings())
        """,
    )
    recorded, replayed = _both(theatre, {"COLOUR": "blue"}, {"COLOUR": "red"})
    assert replayed.own == recorded.own
    assert b"colour='blue' shade='of the file' tint='blueish'" in recorded.out


JOBS = """
    import multiprocessing, os
    from concurrent.futures import ProcessPoolExecutor

    def job(number):
        return number, os.environ.get("COLOUR"), os.getpid()

    if __name__ == "__main__":
        for method in ("fork", "spawn", "forkserver"):
            context = multiprocessing.get_context(method)
            with ProcessPoolExecutor(2, mp_context=context) as pool:
                print(sorted(pool.map(job, range(6))))
        worker = multiprocessing.get_context("fork").Process(target=job, args=(1,))
        worker.start()
        worker.join()
        print(worker.pid == worker.ident, worker.pid, multiprocessing.current_process().pid)
        print(multiprocessing.current_process().pid == os.getpid())
"""


def test_jobs_of_a_pool_know_what_they_knew_whichever_process_does_them(theatre: Theatre) -> None:
    theatre.write("program.py", JOBS)
    recorded, replayed = _both(theatre, {"COLOUR": "blue"}, {"COLOUR": "red"})
    assert replayed.own == recorded.own
    assert b"(5, 'blue', " in recorded.out


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_and_its_number(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import os

        child = os.fork()
        if child == 0:
            print("child", os.getpid(), os.getppid(), flush=True)
            os._exit(3)
        print(child, os.waitpid(child, 0), flush=True)
        other = os.fork()
        if other == 0:
            os._exit(4)
        print(other, os.wait() == (other, 4 << 8))
        """,
    )
    recorded = theatre.check("program.py")
    assert recorded.out.endswith(b"True\n")


def test_it_ends_itself_by_a_signal(theatre: Theatre) -> None:
    theatre.write("program.py", "import os; os.kill(os.getpid(), 15)")
    assert theatre.check("program.py").code == 143


def test_a_replay_sends_no_signal_to_a_stranger(theatre: Theatre) -> None:
    """A number that the program did not get from the system may be anybody's by now."""
    theatre.write(
        "program.py",
        """
        import os, signal

        with open("number") as file:
            os.kill(int(file.read()), signal.SIGTERM)
        print("sent")
        """,
    )

    def stranger() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["sleep", "600"])
        theatre.folder.joinpath("number").write_text(str(process.pid), encoding="ascii")
        return process

    first = stranger()
    recorded = theatre.record("program.py")
    assert (recorded.out, first.wait()) == (b"sent\n", -signal.SIGTERM)
    with stranger() as second:
        try:
            replayed = theatre.replay("program.py")
            assert (replayed.code, replayed.out) == (0, recorded.out)
            assert "in a replay it is not sent" in replayed.err
            assert second.poll() is None
        finally:
            second.kill()


def test_a_worker_that_is_ended_by_its_number(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import os, signal

        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            print(os.getpid(), os.getppid(), flush=True)
            os.write(there, b"x")
            signal.pause()
        os.read(here, 1)
        os.kill(child, signal.SIGTERM)
        print(os.waitpid(child, 0) == (child, signal.SIGTERM))
        """,
    )
    assert theatre.check("program.py").out.endswith(b"True\n")


def test_other_arguments_are_worth_a_note(theatre: Theatre) -> None:
    theatre.write("program.py", "import sys; print(sys.argv[1:])")
    assert theatre.record("program.py", "a", "b").code == 0
    assert "note" not in theatre.replay("program.py", "a", "b").err
    ran = theatre.run(
        "--replay", "c", "--report", "r.json", "--", sys.executable, "program.py", "a", "c"
    )
    assert (ran.code, ran.out) == (0, b"['a', 'c']\n")
    assert 'reenact: note: argument 2 is "c", and was "b" in the recording\n' in ran.err
    report = theatre.report("r.json")
    assert report["status"] == "ok"
    assert report["arguments"] == {"recorded": ["a", "b"], "given": ["a", "c"]}
    quiet = theatre.run("-q", "--replay", "c", "--", sys.executable, "program.py")
    assert (quiet.code, quiet.err) == (0, "")


def test_other_arguments_are_told_with_the_divergence_that_they_make(theatre: Theatre) -> None:
    theatre.write("program.py", "import sys; from ask import ask; print(ask(sys.argv[1]))")
    assert theatre.record("program.py", "/json?Bern").code == 0
    ran = theatre.run("-q", "--replay", "c", "--", sys.executable, "program.py", "/json?Rome")
    assert ran.code == 1
    assert "$.request.url" in ran.err
    assert 'note: argument 1 is "/json?Rome", and was "/json?Bern" in the recording' in ran.err


WHERE_IT_IS = """
    import os
    from pathlib import Path

    print(os.getcwd(), Path.cwd(), os.getcwdb())
    print(os.path.expanduser("~/x"), Path.home(), Path("~").expanduser())
    os.environ["HOME"] = "/"
    print(os.path.expanduser("~/x"), Path.home())
    os.chdir("/")
    print(os.getcwd(), Path.cwd())
"""


def test_folders_are_the_recorded_ones_until_the_program_goes_elsewhere(theatre: Theatre) -> None:
    theatre.write("program.py", WHERE_IT_IS)
    home = theatre.folder / "home"
    home.mkdir()
    recorded, replayed = _both(theatre, {"HOME": str(home)}, {"HOME": "/"})
    assert replayed.own == recorded.own
    assert recorded.out.count(str(home).encode()) == 3
    assert recorded.out.endswith(b"/x /\n/ /\n")


def test_a_folder_that_is_not_here_is_not_given_to_the_program(theatre: Theatre) -> None:
    theatre.write("program.py", WHERE_IT_IS)
    home = theatre.folder / "home"
    home.mkdir()
    assert theatre.record("program.py", HOME=str(home)).code == 0
    home.rmdir()
    replayed = theatre.replay("program.py", HOME="/")
    assert str(home).encode() not in replayed.out
    assert "is not on this machine" in replayed.err


def test_what_is_appended_goes_on_with_its_own_facts(theatre: Theatre) -> None:
    text = "import os, sys, time; from ask import ask\nfor word in sys.argv[1:]:\n"
    line = "    print(os.getenv('COLOUR'), time.time(), time.time(), ask('/json?' + word))\n"
    theatre.write("program.py", text + line)
    first = theatre.record("program.py", "one")
    words = ("--", sys.executable, "program.py", "two")
    second = theatre.run("--capture", "c", "--append", *words)
    assert theatre.replay("program.py", "one", "two").out == first.out + second.out


def test_what_is_added_is_told_what_was_recorded(theatre: Theatre) -> None:
    text = "import os, sys; from ask import ask\nfor word in sys.argv[1:]:\n"
    line = "    print(ask(f'/json?{word}{os.getpid()}' + os.environ['COLOUR']))\n"
    theatre.write("program.py", text + line)
    first = theatre.record("program.py", "one", COLOUR="blue")
    words = ("--", sys.executable, "program.py", "one", "two")
    more = theatre.run("--capture", "c", "--mode", "record_missing", *words, COLOUR="red")
    assert more.out.startswith(first.out)
    assert more.out.endswith(b'blue"}\n')
    assert theatre.replay("program.py", "one", "two", COLOUR="red").out == more.out
