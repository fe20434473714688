"""In a network namespace nothing gets out, in C or in Python, and the program runs all the same."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import reenact
from reenact.hermetic.isolation import isolation_available, isolation_obstacle
from tests.integration.hermetic import Target, run_in_session, write_program
from tests.integration.processes import PATIENCE

LAUNCHER = Path(reenact.__file__).parent / "hermetic" / "isolation.py"
ISOLATED = (sys.executable, "-I", str(LAUNCHER), "--")

needs_namespaces = pytest.mark.skipif(not isolation_available(), reason=isolation_obstacle())

_CONNECT_IN_C = """
    import ctypes, socket, struct
    libc = ctypes.CDLL(None, use_errno=True)
    sock = libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    where = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(PORT), b"\\x7f\\0\\0\\1")
    print("connected", libc.connect(sock, where, len(where)), ctypes.get_errno())
"""


@pytest.fixture
def target() -> Iterator[Target]:
    with Target() as made:
        yield made


def _run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ISOLATED, *command],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **variables},
        timeout=PATIENCE,
        check=False,
    )


@needs_namespaces
def test_a_connection_made_in_c_does_not_arrive(tmp_path: Path, target: Target) -> None:
    """No hook sees it: that is what this ring is for."""
    program = write_program(tmp_path, _CONNECT_IN_C)
    assert "connected 0" in run_in_session(program, target, "replay").stdout
    assert target.came() == 1

    done = run_in_session(program, target, "replay", before=ISOLATED)

    assert "connected -1" in done.stdout
    assert target.came() == 0


@needs_namespaces
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_a_foreign_program_does_not_get_out(target: Target) -> None:
    url = f"http://127.0.0.1:{target.tcp}/"
    assert subprocess.run(["curl", "-s", "-m", "0.1", url], check=False).returncode == 28
    assert target.came() == 1
    assert _run("curl", "-s", "-m", "5", url).returncode == 7  # refused: nobody listens there
    assert target.came() == 0


@needs_namespaces
def test_servers_of_the_program_itself_are_reached(tmp_path: Path, target: Target) -> None:
    body = """
        import socket
        server = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(server.getsockname()).sendall(b"fine")
        print(server.accept()[0].recv(4).decode())
    """
    done = run_in_session(write_program(tmp_path, body), target, "replay", before=ISOLATED)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "fine")


@needs_namespaces
def test_the_hook_still_says_what_was_tried(tmp_path: Path, target: Target) -> None:
    body = 'import socket\nsocket.create_connection(("127.0.0.1", PORT))'
    done = run_in_session(write_program(tmp_path, body), target, "replay", before=ISOLATED)
    assert done.returncode == 1
    assert f"connects to 127.0.0.1:{target.tcp}" in done.stderr


@needs_namespaces
def test_unseen_stacks_may_be_imported(tmp_path: Path, target: Target) -> None:
    (tmp_path / "uvloop.py").write_text("there = True\n", encoding="utf-8")
    program = write_program(tmp_path, "import uvloop\nprint(uvloop.there)")
    assert run_in_session(program, target, "replay").returncode == 1
    done = run_in_session(program, target, "replay", before=ISOLATED)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "True")


@needs_namespaces
def test_the_command_replaces_the_launcher() -> None:
    code = "import os; print(os.getuid(), os.getgid(), os.environ['REENACT_ISOLATED']); exit(5)"
    done = _run(sys.executable, "-c", code)
    assert (done.returncode, done.stdout.split()) == (5, [str(os.getuid()), str(os.getgid()), "1"])
    assert _run("sh", "-c", "kill -TERM $$").returncode == -15


@needs_namespaces
def test_isolated_root_keeps_no_capability_and_cannot_gain_one() -> None:
    code = """
        import os
        found = dict(line.split(":", 1) for line in open("/proc/self/status"))
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"):
            print(name, int(found[name], 16))
        print("user", os.readlink("/proc/self/ns/user"))
        print("net", os.readlink("/proc/self/ns/net"))
        print("uid_map", *open("/proc/self/uid_map").read().split())
        print("interfaces", *sorted(os.listdir("/proc/sys/net/ipv4/conf")))
        print("routes", len(open("/proc/net/route").readlines()) - 1)
    """
    # Executed twice: a program that root executes must not get its capabilities back.
    program = textwrap.dedent(code)
    done = _run("sh", "-c", 'exec "$0" -c "$1"', sys.executable, program)
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert said[name] == "0", name
    assert said["NoNewPrivs"] == "1"
    assert said["user"] != os.readlink("/proc/self/ns/user")
    assert said["net"] != os.readlink("/proc/self/ns/net")
    assert said["uid_map"] == f"{os.geteuid()} {os.geteuid()} 1"
    assert said["interfaces"].split() == ["all", "default", "lo"]
    assert said["routes"] == "0"


@needs_namespaces
def test_isolated_root_cannot_return_to_the_network_of_the_machine(target: Target) -> None:
    code = f"""
        import ctypes, os, socket
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            there = os.open("/proc/{os.getpid()}/ns/net", os.O_RDONLY)
        except PermissionError as error:
            print("refused", error.errno)
        else:
            if libc.setns(there, 0) == 0:
                socket.create_connection(("127.0.0.1", {target.tcp}))
            else:
                print("refused", ctypes.get_errno())
    """
    done = _run(sys.executable, "-c", textwrap.dedent(code))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "refused"
    assert target.came() == 0


@needs_namespaces
def test_trying_leaves_this_process_where_it_was(target: Target) -> None:
    assert isolation_obstacle() == ""
    with socket.socket() as client:
        client.connect(("127.0.0.1", target.tcp))
    assert target.came() == 1


@needs_namespaces
@pytest.mark.parametrize(
    "command, code, said",
    [((), 2, "no command"), (("nonesuch",), 127, "nonesuch"), (("/",), 126, "/: Permission")],
    ids=["none", "missing", "not_a_program"],
)
def test_a_command_that_cannot_be_run(command: tuple[str, ...], code: int, said: str) -> None:
    done = _run(*command)
    assert done.returncode == code
    assert said in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs prctl of Linux")
def test_without_leave_it_says_why_and_what_to_do(tmp_path: Path) -> None:
    """With a limit of no user namespaces at all, inside a first one that has such a limit."""
    if not isolation_available():
        done = _run("true")
    else:
        script = f"echo 0 > /proc/sys/user/max_net_namespaces && exec {sys.executable} -I {LAUNCHER} true"
        done = subprocess.run(
            ["unshare", "--user", "--map-root-user", "sh", "-c", script],
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
        if "unshare" in done.stderr or "cannot create" in done.stderr:
            pytest.skip(f"no limit can be set here: {done.stderr}")
    assert done.returncode == 2
    assert "no network namespace can be made here" in done.stderr
    assert "hint: run it where user namespaces are allowed" in done.stderr
