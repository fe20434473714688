"""Programs that start other programs: recorded with those, and replayed without them."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import reenact
from reenact.policy.model import Budgets, Mode, Policy
from tests.integration.running import Theatre, joined
from tests.unit.policy.sets import POLICY, put_set

TALKING = {
    "a_command": """
        done = subprocess.run(["sh", "-c", "date +%N; date +%N >&2; exit 3"], capture_output=True)
        print(done)
        """,
    "a_shell": 'print(subprocess.check_output("date +%N; echo $((6 * 7))", shell=True, text=True))',
    "only_a_code": 'print(subprocess.call(["false"]), subprocess.call("exit 9", shell=True))',
    "the_output_alone": 'print(subprocess.getstatusoutput("date +%N; exit 4"))',
    "a_pipe_of_os": """
        pipe = os.popen("date +%N; exit 5")
        print(pipe.read(), pipe.close())
        """,
    "system": """
        status = os.system("date +%N; exit 6")
        print(status, os.waitstatus_to_exitcode(status))
        print(os.waitstatus_to_exitcode(os.system("kill -9 $$")))
        """,
    "much_both_ways": """
        lines = b"".join(b"%d of many\\n" % (n * 7919 % 30011) for n in range(20_000))
        done = subprocess.run(["sort"], input=lines, stdout=subprocess.PIPE)
        print(len(lines), done.returncode, hashlib.sha256(done.stdout).hexdigest())
        """,
    "much_one_way": """
        lines = b"a needle in many a haystack\\n" * 12_000
        print(subprocess.run(["grep", "-c", "needle"], input=lines, stdout=subprocess.PIPE).stdout)
        """,
    "its_own_output_and_ours": """
        print("before", flush=True)
        subprocess.run("date +%N; echo told >&2; date +%N", shell=True)
        print("after", flush=True)
        """,
    "a_file": """
        with open("out.txt", "wb") as file:
            subprocess.run("echo first; date +%N", shell=True, stdout=file, stderr=file)
        print(open("out.txt").read())
        """,
    "one_stream_of_two": """
        done = subprocess.run("echo a; echo b >&2; echo c", shell=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        print(done.stdout)
        """,
    "nowhere": """
        print(subprocess.run("echo a; echo b >&2; exit 2", shell=True, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL))
        """,
    "text": """
        told = "Grüße\\nund mehr\\n"
        done = subprocess.run(["cat"], input=told, capture_output=True, encoding="utf-8")
        print(ascii(done.stdout), done.stdout == told)
        done = subprocess.run("printf 'a\\\\r\\\\nb\\\\351'", shell=True, capture_output=True, text=True,
                              encoding="latin-1")
        print(ascii(done.stdout))
        """,
    "no_text": r"""
        print(subprocess.run("printf '\\377\\000\\376'", shell=True, stdout=subprocess.PIPE).stdout)
        """,
    "another_place": """
        os.mkdir("sub")
        print(subprocess.check_output(["pwd"], cwd="sub")[-5:])
        os.rmdir("sub")
        """,
    "another_environment": """
        show = "echo $COLOUR; date +%N"
        print(subprocess.check_output(show, shell=True, env={**os.environ, "COLOUR": "green"}))
        print(subprocess.check_output(show, shell=True, env={"COLOUR": "red", "PATH": os.defpath}))
        """,
    "nobody_there": """
        for words, more in ((["no-such-program"], {}), (["cat"], {"cwd": "/no/such/place"})):
            try:
                subprocess.run(words, **more)
            except OSError as error:
                print(repr(error), error.filename, error.errno)
        """,
    "checked": """
        try:
            subprocess.run("date +%N; exit 8", shell=True, check=True, stdout=subprocess.PIPE)
        except subprocess.CalledProcessError as error:
            print(error, error.output)
        """,
    "killed_from_inside": 'print(subprocess.run("kill -SEGV $$", shell=True).returncode)',
    "terminated": """
        process = subprocess.Popen(["sleep", "1000"])
        process.terminate()
        print(process.wait(), process.returncode)
        """,
    "killed_by_number": """
        process = subprocess.Popen(["sleep", "1000"])
        os.kill(process.pid, signal.SIGKILL)
        print(process.wait())
        """,
    "a_group": """
        process = subprocess.Popen("sleep 1000; true", shell=True, start_new_session=True)
        os.killpg(process.pid, signal.SIGTERM)
        print(process.wait())
        """,
    "says_goodbye": """
        script = "trap 'date +%N; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
        process = subprocess.Popen(script, shell=True, stdout=subprocess.PIPE, text=True)
        print(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        print(process.stdout.read(), process.wait())
        """,
    "too_slow": """
        try:
            subprocess.run("echo part; date +%N; exec sleep 1000", shell=True, capture_output=True,
                           timeout=0.3)
        except subprocess.TimeoutExpired as error:
            print(error, error.output, error.stderr)
        """,
    "asked_again_and_again": """
        process = subprocess.Popen(["sleep", "0.08"])
        try:
            process.wait(timeout=0.001)
        except subprocess.TimeoutExpired as error:
            print(error)
        asked = 0
        while process.poll() is None:
            asked += 1
            sleep(0.005)
        print(asked, process.returncode)
        """,
    "a_wait_that_is_long_enough": """
        print(subprocess.Popen(["true"]).wait(timeout=100))
        print(subprocess.run("date +%N", shell=True, capture_output=True, timeout=100).stdout)
        """,
    "a_dialogue": """
        words = [sys.executable, "-iqu"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL, bufsize=1) as process:
            for n in range(8):
                process.stdin.write(f"import time; print({n} * 7, time.time_ns())\\n")
                print(process.stdout.readline())
            process.stdin.close()
            print(process.stdout.read())
        print(process.returncode)
        """,
    "json_both_ways": """
        server = (
            "import json, os, sys\\nfor line in sys.stdin:\\n  asked = json.loads(line)\\n"
            "  print(json.dumps({'id': asked['id'], 'result': os.getpid()}), flush=True)"
        )
        process = subprocess.Popen([sys.executable, "-c", server], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        for n in range(5):
            process.stdin.write(json.dumps({"id": n, "method": "pid"}).encode() + b"\\n")
            process.stdin.flush()
            print(json.loads(process.stdout.readline()))
        print(process.communicate())
        """,
    "read_as_it_comes": """
        process = subprocess.Popen("for n in 1 2 3 4 5; do date +%N; sleep 0.01; done", shell=True,
                                   stdout=subprocess.PIPE, bufsize=0)
        while piece := os.read(process.stdout.fileno(), 1000):
            print(piece)
        print(process.wait())
        """,
    "selected": """
        process = subprocess.Popen("date +%N; date +%N >&2; sleep 0.02; date +%N", shell=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with selectors.DefaultSelector() as selector:
            for file in (process.stdout, process.stderr):
                selector.register(file, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    piece = os.read(key.fd, 1000)
                    print(key.fileobj is process.stderr, piece)
                    if not piece:
                        selector.unregister(key.fileobj)
        print(process.wait())
        """,
    "a_pipeline": """
        first = subprocess.Popen(["yes"], stdout=subprocess.PIPE)
        last = subprocess.Popen(["head", "-n", "3"], stdin=first.stdout, stdout=subprocess.PIPE)
        first.stdout.close()
        print(last.communicate(), last.returncode, first.wait())
        """,
    "a_file_to_read": """
        with open("in.txt", "w+") as file:
            file.write("b\\na\\n")
            file.seek(0)
            print(subprocess.run(["sort"], stdin=file, stdout=subprocess.PIPE).stdout)
        """,
    "read_by_two_threads": """
        import threading
        process = subprocess.Popen(
            "for n in 1 2 3 4; do date +%N; date +%N >&2; sleep 0.003; done", shell=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
        def hear(file, name):
            for line in file:
                print(name, line, end="", flush=True)
        threads = [threading.Thread(target=hear, args=pair)
                   for pair in ((process.stdout, "out"), (process.stderr, "err"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(process.wait())
        """,
    "too_slow_again_and_again": """
        process = subprocess.Popen("echo a; sleep 0.05; date +%N; exec sleep 1000", shell=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for timeout in (0.01, 0.1, 0.02):
            try:
                process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired as error:
                print(error, error.output)
        process.kill()
        print(process.communicate(), process.returncode)
        try:
            subprocess.run(["sleep", "1000"], timeout=0.02)
        except subprocess.TimeoutExpired as error:
            print(error)
        """,
    "waited_for_by_number": """
        process, asked = subprocess.Popen("date +%N; sleep 0.02; exit 7", shell=True), 0
        while os.waitpid(process.pid, os.WNOHANG) == (0, 0):
            asked += 1
            sleep(0.003)
        print(asked, process.wait())
        process = subprocess.Popen(["sh", "-c", "exit 3"])
        print(os.waitpid(process.pid, 0) == (process.pid, 3 << 8))
        process = subprocess.Popen(["sh", "-c", "exit 4"])
        print(os.wait() == (process.pid, 4 << 8))
        """,
    "files_of_its_own": """
        _, end = os.pipe()
        os.dup2(end, 9)
        words = ["sh", "-c", "date +%N; echo told >&9"]
        print(subprocess.run(words, pass_fds=[9], stdout=subprocess.PIPE).stdout)
        """,
    "left_behind": """
        subprocess.Popen(["sh", "-c", "exec sleep 0.2"])
        print("gone first")
        """,
    "prepared_in_the_child": """
        print(subprocess.run(["sh", "-c", "umask"], preexec_fn=lambda: os.umask(0o77),
                             stdout=subprocess.PIPE).stdout)
        """,
    "git": """
        def git(*words):
            done = subprocess.run(["git", *words], capture_output=True, text=True, cwd="repo")
            print(done.returncode, done.stdout, done.stderr)
        os.makedirs("repo", exist_ok=True)
        shutil.rmtree("repo/.git", ignore_errors=True)
        git("init", "--quiet", "--initial-branch", "main", ".")
        git("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--allow-empty",
            "-m", "first")
        git("log", "--format=%H %at %s")
        git("no-such-command")
        """,
}
"""The body of a program each; what it prints differs from run to run, or would without care."""

HEAD = """
import hashlib, json, os, selectors, shutil, signal, subprocess, sys, time
from time import sleep
"""


@pytest.mark.parametrize("bodies", joined(TALKING, 10, alone=["files_of_its_own"]))
def test_what_a_program_learns_from_others(bodies: list[str], theatre: Theatre) -> None:
    theatre.write("program.py", HEAD + "".join(map(dedent, bodies)))
    assert theatre.check("program.py").code == 0


@pytest.mark.parametrize(
    "environ", [{"TZ": "Asia/Tokyo", "LC_ALL": "C"}, {"PYTHONHASHSEED": "7"}], ids=["zone", "seed"]
)
def test_the_surroundings_do_not_matter(environ: dict[str, str], theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import subprocess
        print(subprocess.check_output("date; printf '\\\\303\\\\274'", shell=True))
        """,
    )
    recorded = theatre.record("program.py")
    assert theatre.replay("program.py", **environ).own == recorded.own


def test_a_replay_runs_nothing(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import os, subprocess
        for n in range(3):
            subprocess.run(f"echo {n} >> ran", shell=True)
        os.system("echo 3 >> ran")
        """,
    )
    theatre.record("program.py")
    assert theatre.folder.joinpath("ran").read_text("utf-8").split() == ["0", "1", "2", "3"]
    theatre.folder.joinpath("ran").unlink()
    assert theatre.replay("program.py").code == 0
    assert not theatre.folder.joinpath("ran").exists()


def test_what_is_recorded(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import os, subprocess, sys
        subprocess.run(["sh", "-c", "cat; echo err >&2; exit 3"], input=b"told", cwd="sub",
                       env={**os.environ, "COLOUR": "green"}, capture_output=True)
        """,
    )
    theatre.folder.joinpath("sub").mkdir()
    theatre.record("program.py")
    (event,) = _processes(theatre)
    assert event["op"] == "sh"
    assert event["request"] == {
        "argv": ["sh", "-c", "cat; echo err >&2; exit 3"],
        "cwd": "sub",
        "env": {"set": {"COLOUR": "green"}},
    }
    response = event["response"]
    assert response["exitCode"] == 3
    assert (response["stdin"], response["stdout"], response["stderr"]) == ("told", "told", "err\n")
    assert {turn[0] for turn in response["turns"]} == {0, 1, 2}
    assert response["turns"][-1][2:] == [5, 0], "four bytes and the end, and no signal"


def test_ten_at_once_in_threads(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import subprocess
        from concurrent.futures import ThreadPoolExecutor, as_completed

        def ask(n):
            done = subprocess.run(f"sleep 0.0$(($$ % 7)); date +%N; exit {n}", shell=True,
                                  stdout=subprocess.PIPE)
            print(n, done.stdout, flush=True)
            return done.returncode

        with ThreadPoolExecutor(10) as pool:
            for future in as_completed([pool.submit(ask, n) for n in range(10)]):
                print(future.result(), flush=True)
        processes = [subprocess.Popen(f"sleep 0.0$(($$ % 7)); echo {n}", shell=True)
                     for n in range(10)]
        print([process.wait() for process in processes])
        """,
    )
    assert theatre.check("program.py").code == 0


def test_a_fork_does_not_hold_a_pipe_open(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import os, subprocess
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        wakes, woken = os.pipe()
        child = os.fork()
        if not child:
            os.read(wakes, 1)
            os._exit(0)
        process.stdin.write(b"told")
        # The forked child holds the program's own end, and not ours.
        print(os.read(process.stdout.fileno(), 100) if process.stdin.flush() is None else "")
        process.kill()
        print(process.stdout.read(), process.wait())
        os.write(woken, b"x")
        os.waitpid(child, 0)
        """,
    )
    assert theatre.check("program.py").out == b"b'told'\nb'' -9\n"


def test_a_python_process_is_stubbed_with_all_that_it_did(theatre: Theatre) -> None:
    theatre.write("child.py", "import time\nfrom ask import ask\nprint(ask('/json'), time.time())")
    theatre.write(
        "program.py",
        """
        import subprocess, sys
        print(subprocess.check_output([sys.executable, "child.py"], text=True))
        """,
    )
    recorded = theatre.record("program.py")
    assert [lane for lane, _ in theatre.asked()] == ["0.1"]
    theatre.folder.joinpath("child.py").unlink()
    replayed = theatre.replay("program.py")
    assert replayed.own == recorded.own
    assert ", 0 live, 0 unused" in replayed.summary


def test_a_process_that_was_not_recorded(theatre: Theatre) -> None:
    theatre.write("program.py", "import subprocess\nsubprocess.run(open('words').read().split())")
    theatre.write("words", "echo one")
    theatre.record("program.py")
    theatre.write("words", "echo two")
    replayed = theatre.replay("program.py")
    assert replayed.code == 1
    assert replayed.out == b""
    assert "event_payload_mismatch" in replayed.err
    assert '"two"' in replayed.err


def test_a_process_that_is_told_something_else(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import subprocess
        print(subprocess.run(["cat"], input=open("told").read(), stdout=subprocess.PIPE, text=True))
        """,
    )
    theatre.write("told", "the same, and then this")
    theatre.record("program.py")
    theatre.write("told", "the same, and then that")
    replayed = theatre.replay("program.py")
    assert replayed.code == 1
    assert "at $.request.stdin." in replayed.err
    assert '    - "the same, and then this"\n    + "the same, and then that"' in replayed.err
    for told in ("the same", "the same, and then this, and more"):
        theatre.write("told", told)
        replayed = theatre.replay("program.py")
        assert replayed.code == 1
        assert f'    + "{told}"' in replayed.err


def test_a_file_that_a_process_reads_has_changed(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import subprocess
        subprocess.run(["sort"], stdin=open("list"))
        """,
    )
    theatre.write("list", "b")
    theatre.record("program.py")
    theatre.write("list", "c")
    replayed = theatre.replay("program.py")
    assert replayed.code == 1
    assert "at $.request.stdin.digest." in replayed.err


def test_more_than_a_process_reads_is_no_difference(theatre: Theatre) -> None:
    """How much of it had been passed on when it ended is a matter of chance."""
    theatre.write(
        "program.py",
        """
        import subprocess
        for n in (1, 100_000):
            subprocess.run(["head", "-n", "1"], input=b"some line\\n" * n)
        """,
    )
    assert theatre.check("program.py").out == b"some line\n" * 2


def test_one_process_too_many(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import subprocess
        for _ in range(int(open("times").read())):
            subprocess.run(["echo", "once"])
        """,
    )
    theatre.write("times", "1")
    theatre.record("program.py")
    theatre.write("times", "2")
    replayed = theatre.replay("program.py")
    assert (replayed.code, replayed.out) == (1, b"once\n")
    assert "nondeterministic_underflow" in replayed.err
    theatre.write("times", "0")
    fewer = theatre.replay("program.py")
    assert fewer.code == 1
    assert "event_missing" in fewer.err


def test_what_the_library_asks_the_machine_is_no_event(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import ctypes.util, platform
        platform.processor(), ctypes.util.find_library("c")
        """,
    )
    theatre.check("program.py")
    assert _processes(theatre) == []


def test_a_recording_of_the_network_alone_runs_them(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import subprocess
        from ask import ask
        ask("/json")
        subprocess.run("echo ran >> ran", shell=True)
        """,
    )
    command = ("--", sys.executable, "program.py")
    theatre.run("--record-net-to", "tape", *command)
    theatre.run("--replay-net-from", "tape", *command)
    assert theatre.folder.joinpath("ran").read_text("utf-8") == "ran\nran\n"


def test_in_one_process(tmp_path: Path) -> None:
    """Without ``reenact run``: a session of the program's own."""
    import subprocess

    place, ran = tmp_path / "c", tmp_path / "ran"
    command = ["sh", "-c", f"echo x >> {ran}; date +%N"]
    with reenact.session(capture=place, mode="record"):
        first = subprocess.check_output(command)
    with reenact.session(capture=place, mode="replay"):
        assert subprocess.check_output(command) == first
    assert ran.read_text("utf-8") == "x\n"


COMMANDS = (["date", "+%N"], ["echo", "new"], ["sh", "-c", "date +%N; cat"])


def _said(*words: str) -> bytes:
    import subprocess

    return subprocess.run(words, input=b"told", stdout=subprocess.PIPE).stdout


def test_a_process_is_added_to_a_recording(tmp_path: Path) -> None:
    first, second, third = COMMANDS
    with reenact.session(capture=tmp_path / "c", mode="record"):
        recorded = [_said(*first), _said(*third)]
    with reenact.session(capture=tmp_path / "c", mode="record_missing"):
        added = [_said(*first), _said(*second), _said(*third)]
    assert added == [recorded[0], b"new\n", recorded[1]]
    with reenact.session(capture=tmp_path / "c", mode="replay"):
        assert [_said(*words) for words in COMMANDS] == added


def test_a_lenient_replay_goes_on(tmp_path: Path) -> None:
    first, _, third = COMMANDS
    warned: list[str] = []
    with reenact.session(capture=tmp_path / "c", mode="record"):
        recorded = [_said(*first), _said(*third)]
    with reenact.session(
        capture=tmp_path / "c", mode="replay", strict=False, warn=warned.append
    ) as session:
        assert [_said(*third), _said(*first)] == recorded[::-1]
    assert session.report().divergences[0].code == "event_payload_mismatch"


def test_a_session_that_ends_before_its_process(tmp_path: Path) -> None:
    import subprocess

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    with reenact.session(capture=tmp_path / "c", mode="record"):
        process = start()
    assert (process.communicate(b"after")[0], process.returncode) == (b"after", 0)
    with reenact.session(capture=tmp_path / "c", mode="replay"):
        process = start()
    assert (process.communicate(b"after")[0], process.returncode) == (b"", 0)


def test_what_a_process_says_has_a_budget(tmp_path: Path) -> None:
    import subprocess

    policy = Policy(id="p", budgets=Budgets(response_bytes=1_000))
    modes: tuple[Mode, ...] = ("record", "replay")
    for mode in modes:
        with reenact.session(capture=tmp_path / "c", mode=mode, policy=policy):
            assert subprocess.check_output(["seq", "9"])[:4] == b"1\n2\n"
            with pytest.raises(reenact.BudgetExceeded, match="responseBytes"):
                subprocess.check_output(["seq", "9999"])


def _processes(theatre: Theatre) -> list[Any]:
    with reenact.open_recording(theatre.folder / "c") as source:
        return [event.data for event in source if event.data.get("source") == "process"]


def test_a_python_process_that_runs_again(theatre: Theatre) -> None:
    """What it asks for is served from its own lane."""
    again = {"boundaries": [{"capability": "process.exec", "action": "re-execute"}]}
    put_set(theatre.folder, {**POLICY, "id": "again", **again})
    theatre.write(
        "child.py",
        """
        import time
        from ask import ask
        print(ask("/json"), time.time())
        open("ran", "a").write("x")
        """,
    )
    theatre.write(
        "program.py",
        """
        import subprocess, sys, time
        print(subprocess.check_output([sys.executable, "child.py"], text=True), time.time())
        print(subprocess.check_output("date +%N; echo x >> other", shell=True))
        """,
    )
    command = ("--policy", "again", "--", sys.executable, "program.py")
    recorded = theatre.run("--capture", "c", *command)
    connections = theatre.server.connections
    replayed = theatre.run("--replay", "c", *command)
    assert replayed.own == recorded.own
    assert ", 0 live, 0 unused" in replayed.summary
    assert theatre.server.connections == connections
    assert theatre.folder.joinpath("ran").read_text("utf-8") == "xx"
    other = theatre.folder.joinpath("other").read_text("utf-8")
    assert other == "x\n", "what is no Python cannot be given its calls: it is stood in for"
