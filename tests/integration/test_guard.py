"""In a replay nothing leaves the program past the boundaries, whatever it uses and swallows."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import reenact
from reenact.hermetic import guard
from tests.integration.hermetic import (
    Outcome,
    Target,
    run_in_session,
    run_many,
    write_program,
)

_LINUX = sys.platform.startswith("linux")
_CLIENT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).close()"

CONNECTS = {
    "raw_socket": """
        import socket
        socket.socket().connect(("127.0.0.1", PORT))
    """,
    "connect_ex": """
        import socket
        print(socket.socket().connect_ex(("127.0.0.1", PORT)))
    """,
    "by_create_connection": """
        import socket
        socket.create_connection(("localhost", PORT)).close()
    """,
    "a_name": """
        import socket
        socket.socket().connect(("localhost", PORT))
    """,
    "asyncio_streams": """
        import asyncio
        asyncio.run(asyncio.open_connection("127.0.0.1", PORT))
    """,
    "asyncio_by_name": """
        import asyncio
        asyncio.run(asyncio.open_connection("localhost", PORT))
    """,
    "asyncio_datagrams": """
        import asyncio
        async def main():
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_datagram_endpoint(
                asyncio.DatagramProtocol, remote_addr=("127.0.0.1", UDP))
            transport.sendto(b"x")
            transport.close()
        asyncio.run(main())
    """,
    "datagram": """
        import socket
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", UDP))
    """,
    "message": """
        import socket
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.sendmsg([b"x"], [], 0, ("127.0.0.1", UDP))
    """,
    "connected_datagrams": """
        import socket
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.connect(("127.0.0.1", UDP))
        sock.send(b"x")
    """,
    "mail": """
        import smtplib, socket
        socket.setdefaulttimeout(0.05)
        smtplib.SMTP("127.0.0.1", PORT)
    """,
    "a_thread": """
        import socket, threading
        raised = []
        def work():
            try:
                socket.create_connection(("127.0.0.1", PORT)).close()
            except BaseException as error:
                raised.append(error)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        for error in raised:
            raise error
    """,
    "an_executor": """
        import socket
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor() as pool:
            pool.submit(socket.create_connection, ("127.0.0.1", PORT)).result().close()
    """,
    "a_thread_of_logging": """
        import logging.handlers, queue
        handler = logging.handlers.SocketHandler("127.0.0.1", PORT)
        listener = logging.handlers.QueueListener(queue.SimpleQueue(), handler)
        listener.start()
        listener.enqueue_sentinel()
        listener.queue.put(logging.makeLogRecord({"msg": "out"}))
        listener.stop()
        handler.handle(logging.makeLogRecord({"msg": "out"}))
        handler.close()
    """,
}
_COMMAND = f"COMMAND = [sys.executable, '-c', {_CLIENT!r}, str(PORT)]"
_STARTS = {
    "by_subprocess": "import subprocess; subprocess.run(COMMAND)",
    "a_shell": "import shlex, subprocess; subprocess.run(shlex.join(COMMAND), shell=True)",
    "by_system": "import os, shlex; os.system(shlex.join(COMMAND))",
    "pipe": "import os, shlex; os.popen(shlex.join(COMMAND)).close()",
    "spawned_by_posix": """
        import os
        os.waitpid(os.posix_spawn(COMMAND[0], COMMAND, {}), 0)
    """,
    "forked_and_executed": "import os; os.spawnv(os.P_WAIT, COMMAND[0], COMMAND)",
    "terminal": "import pty; pty.spawn(COMMAND)",
    "asyncio_subprocess": """
        import asyncio
        async def main():
            await (await asyncio.create_subprocess_exec(*COMMAND)).wait()
        asyncio.run(main())
    """,
}
_PAST = ("spawned_by_posix", "forked_and_executed", "terminal")
"""No boundary covers these ways."""

STARTS = {how: f"{_COMMAND}\n{textwrap.dedent(body).strip()}" for how, body in _STARTS.items()}


@pytest.fixture
def target() -> Iterator[Target]:
    with Target() as made:
        yield made


def _check_refused(
    folder: Path, body: str, target: Target, *said: str, code: str = "event_unexpected"
) -> None:
    """Live it reaches the server; in a replay it does not, and hiding the refusal does not help."""
    program = write_program(folder, body)
    run_in_session(program, target, "off")
    assert target.came() == 1, "the program does not do what it should"

    done = run_in_session(program, target, "replay")

    assert target.came() == 0
    assert done.returncode == 1
    assert f"divergence: {code}" in done.stderr
    for text in said:
        assert text in done.stderr


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return run_many(tmp_path_factory.mktemp("live"), {**CONNECTS, **STARTS}, "off")


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return run_many(tmp_path_factory.mktemp("replayed"), {**CONNECTS, **STARTS}, "replay")


@pytest.mark.parametrize("how", CONNECTS)
def test_a_connection_is_refused(
    how: str, live: dict[str, Outcome], replayed: dict[str, Outcome]
) -> None:
    assert live[how].came == 1, "the program does not do what it should"
    assert replayed[how].came == 0
    assert replayed[how].said.startswith("DivergenceError: divergence: event_unexpected")
    for text in ("nothing was sent", "Covered are ", "--allow net.connect"):
        assert text in replayed[how].said


@pytest.mark.parametrize("how", STARTS)
def test_a_process_is_refused(
    how: str, live: dict[str, Outcome], replayed: dict[str, Outcome]
) -> None:
    assert live[how].came == 1, "the program does not do what it should"
    assert replayed[how].came == 0
    said: tuple[str, ...]
    if how in _PAST:
        assert replayed[how].said.startswith("DivergenceError: divergence: event_unexpected")
        said = ("starts the process", "it was not started", "--allow process.exec")
    else:
        assert replayed[how].said.startswith("DivergenceError: divergence: nondeterministic_under")
        said = ("The program makes the call process",)
    for text in said:
        assert text in replayed[how].said


@pytest.mark.parametrize("how", ["raw_socket", "asyncio_by_name", "a_thread_of_logging"])
def test_hiding_the_refusal_does_not_help(how: str, tmp_path: Path, target: Target) -> None:
    _check_refused(tmp_path, CONNECTS[how], target, "nothing was sent")


def test_becoming_another_program_is_refused(tmp_path: Path, target: Target) -> None:
    body = "import os\n" + _COMMAND + "\nos.execv(COMMAND[0], COMMAND)"
    _check_refused(tmp_path, body, target, "starts the process", "it was not started")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_is_refused(tmp_path: Path, target: Target) -> None:
    body = """
        import subprocess
        subprocess.run(["curl", "-m", "0.1", "-s", f"http://127.0.0.1:{PORT}/?token=abcdef"])
    """
    underflow = "nondeterministic_underflow"
    _check_refused(tmp_path, body, target, "the call process curl", code=underflow)


def test_the_refusal_says_where_and_what(tmp_path: Path, target: Target) -> None:
    program = write_program(tmp_path, CONNECTS["raw_socket"])
    done = run_in_session(program, target, "replay")
    said = (
        f"The program connects to 127.0.0.1:{target.tcp} (program.py:9), which no boundary covers"
    )
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize("catches", ["OSError", "Exception"])
def test_it_is_no_network_error(catches: str, tmp_path: Path, target: Target) -> None:
    program = write_program(tmp_path, CONNECTS["raw_socket"], catches=catches)
    done = run_in_session(program, target, "replay")
    assert (done.returncode, done.stdout, target.came()) == (1, "", 0)


def test_a_lenient_replay_refuses_as_well(tmp_path: Path, target: Target) -> None:
    program = write_program(tmp_path, CONNECTS["raw_socket"])
    done = run_in_session(program, target, "replay", strict=False)
    assert target.came() == 0
    assert done.returncode == 0
    assert "caught DivergenceError" in done.stdout
    assert "1 divergence" in done.stderr


LOOK_UPS = {
    "addresses": 'import socket; socket.getaddrinfo("nobody.invalid", 80)',
    "host": 'import socket; socket.gethostbyname("nobody.invalid")',
    "back": 'import socket; socket.gethostbyaddr("192.0.2.7")',
    "info": 'import socket; socket.getnameinfo(("192.0.2.7", 80), 0)',
    "connect": 'import socket; socket.socket().connect(("nobody.invalid", 80))',
    "sendto": """
        import socket
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", ("nobody.invalid", 80))
    """,
    "bind": 'import socket; socket.socket().bind(("nobody.invalid", 0))',
    "loop": 'import asyncio; asyncio.run(asyncio.open_connection("nobody.invalid", 80))',
}


@pytest.fixture(scope="module")
def looked_up(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return run_many(tmp_path_factory.mktemp("looked"), LOOK_UPS, "replay")


@pytest.mark.parametrize("how", LOOK_UPS)
def test_a_look_up_is_refused(how: str, looked_up: dict[str, Outcome]) -> None:
    said = looked_up[how].said
    assert said.startswith("DivergenceError: divergence: event_unexpected")
    assert "nobody.invalid" in said or "192.0.2.7" in said


def test_a_forked_child_is_held_as_well(tmp_path: Path, target: Target) -> None:
    body = """
        import os, socket
        if not os.fork():
            try:
                socket.create_connection(("127.0.0.1", PORT))
            except BaseException as error:
                os._exit(7 if type(error).__name__ == "DivergenceError" else 8)
            os._exit(0)
        print("child", os.waitstatus_to_exitcode(os.wait()[1]))
    """
    program = write_program(tmp_path, body)
    assert "child 0" in run_in_session(program, target, "off").stdout
    assert target.came() == 1
    assert "child 7" in run_in_session(program, target, "replay").stdout
    assert target.came() == 0


STAYS = {
    "a_pair": """
        import socket
        one, other = socket.socketpair()
        one.send(b"fine")
        return other.recv(4).decode()
    """,
    "own_server": """
        import socket
        server = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname())
        client.send(b"fine")
        return server.accept()[0].recv(4).decode()
    """,
    "own_server_for_all": """
        import socket
        server = socket.create_server(("", 0))
        client = socket.create_connection(("localhost", server.getsockname()[1]))
        client.send(b"fine")
        return server.accept()[0].recv(4).decode()
    """,
    "own_datagrams": """
        import socket
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind(("127.0.0.1", 0))
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"fine", server.getsockname())
        return server.recv(4).decode()
    """,
    "asyncio_server": """
        import asyncio
        async def serve(reader, writer):
            writer.write(b"fine")
            writer.close()
        async def main():
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            said = (await reader.read()).decode()
            writer.close()
            server.close()
            return said
        return asyncio.run(main())
    """,
    "own_unix_socket": """
        import socket
        server = socket.socket(socket.AF_UNIX)
        server.bind("door")
        server.listen()
        client = socket.socket(socket.AF_UNIX)
        client.connect("door")
        client.send(b"fine")
        return server.accept()[0].recv(4).decode()
    """,
    "http_server": """
        import http.server
        http.server.HTTPServer(("", 0), http.server.BaseHTTPRequestHandler).server_close()
        return "fine"
    """,
    "own_names": """
        import email.utils, socket
        socket.getaddrinfo("localhost", 80)
        socket.getaddrinfo("127.0.0.1", 80)
        socket.getaddrinfo(None, 80)
        socket.gethostbyaddr("127.0.0.1")
        email.utils.make_msgid()
        return "fine"
    """,
    "questions_of_the_library": """
        import ctypes.util, platform, uuid
        platform.processor()
        ctypes.util.find_library("nonesuch")
        uuid._ip_getnode()
        return "fine"
    """,
    "netlink": """
        import socket
        socket.if_nameindex()
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).connect((0, 0))
        return "fine"
    """,
    "managed": """
        import multiprocessing
        with multiprocessing.get_context("fork").Manager() as manager:
            return manager.dict(said="fine")["said"]
    """,
    "a_manager_that_has_ended": """
        import multiprocessing
        fork = multiprocessing.get_context("fork")
        with fork.Manager() as manager:
            kept = manager.dict()
        with fork.Pool(1) as pool:
            return pool.apply(str, ("fine",))
    """,
    "server_in_a_child": """
        import multiprocessing, socket
        fork = multiprocessing.get_context("fork")
        def serve(told):
            server = socket.create_server(("127.0.0.1", 0))
            told.send(server.getsockname())
            server.accept()[0].send(b"fine")
        here, there = fork.Pipe()
        child = fork.Process(target=serve, args=(there,))
        child.start()
        said = socket.create_connection(here.recv()).recv(4).decode()
        child.join()
        return said
    """,
    "spawned": """
        import multiprocessing
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(str, ("fine",))
    """,
    "forkserver": """
        import multiprocessing
        with multiprocessing.get_context("forkserver").Pool(1) as pool:
            return pool.apply(str, ("fine",))
    """,
}
_LINUX_ONLY = {
    "netlink",
    "managed",
    "a_manager_that_has_ended",
    "server_in_a_child",
    "questions_of_the_library",
}


@pytest.fixture(scope="module")
def stayed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return run_many(tmp_path_factory.mktemp("stayed"), STAYS, "replay")


@pytest.mark.parametrize("what", STAYS)
def test_what_stays_inside_goes_on(what: str, stayed: dict[str, Outcome]) -> None:
    if what in _LINUX_ONLY and not _LINUX:
        pytest.skip("Linux tells who listens")
    assert stayed[what].said == "fine"


def test_only_the_library_itself_may_ask_the_machine(tmp_path: Path, target: Target) -> None:
    body = """
        code = "import subprocess; subprocess.run(['uname'])"
        exec(code, {"__name__": "platform"})
    """
    done = run_in_session(write_program(tmp_path, body), target, "replay")
    assert done.returncode == 1
    assert "the call process uname" in done.stderr


def test_a_unix_socket_of_somebody_else_is_refused(tmp_path: Path, target: Target) -> None:
    path = tmp_path / "theirs"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        server.setblocking(False)
        body = "import socket\nsocket.socket(socket.AF_UNIX).connect('theirs')"
        done = run_in_session(write_program(tmp_path, body), target, "replay")
        with pytest.raises(BlockingIOError):
            server.accept()
    assert done.returncode == 1
    assert "connects to theirs" in done.stderr


def test_a_secret_in_a_command_is_not_shown(tmp_path: Path, target: Target) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    body = f"import subprocess\nsubprocess.run(['curl', '-H', 'Authorization: Bearer {token}'])"
    done = run_in_session(write_program(tmp_path, body), target, "replay")
    assert "the call process curl" in done.stderr
    assert token not in done.stderr.replace("\n", "").replace(" ", "")


def test_while_recording_it_goes_out_with_a_warning(tmp_path: Path, target: Target) -> None:
    body = """
        import socket
        for _ in range(2):
            socket.create_connection(("127.0.0.1", PORT)).close()
    """
    done = run_in_session(write_program(tmp_path, body), target, "record")
    assert done.returncode == 0
    assert target.came() == 2
    said = (
        f"the program connects to 127.0.0.1:{target.tcp} (program.py:10): no boundary covers that"
    )
    assert done.stderr.count(said) == 1


def test_warnings_come_to_an_end(tmp_path: Path, target: Target) -> None:
    calls = "\n".join(["socket.create_connection(('127.0.0.1', PORT)).close()"] * 14)
    done = run_in_session(write_program(tmp_path, f"import socket\n{calls}"), target, "record")
    assert target.came() == 14
    assert done.stderr.count("no boundary covers that") == 10


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    def patched() -> list[object]:
        return [socket.socket.connect, socket.socket.sendto, os._spawnvef]  # type: ignore[attr-defined]

    before = patched()
    with reenact.session(capture=tmp_path / "c", mode="record"):
        assert "socket.connect" in guard._checks
        assert all(now != then for now, then in zip(patched(), before, strict=True))
    assert patched() == before
