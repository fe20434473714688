"""Installed packages that add a boundary and a lens with entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

import reenact
from reenact.lenses.registry import installed_lenses
from tests.integration.sessions import Studio

LIBRARY = '''
"""An HTTP client that Reenact does not cover."""

import socket


def get(port, method="GET", path="/", body=b""):
    head = f"{method} {path} HTTP/1.0\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head.encode() + body)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    head, _, content = received.partition(b"\\r\\n\\r\\n")
    return int(head.split()[1]), content
'''

BOUNDARY = '''
"""Boundary of the library tiny."""

from reenact.boundaries.http.api import Head, Patch, Request, ask, current


def patches(library):
    def covering(original):
        def get(port, method="GET", path="/", body=b""):
            session = current()
            if session is None or session.mode == "off":
                return original(port, method, path, body)

            def live():
                status, content = original(port, method, path, body)
                yield Head(status=status, headers=(("content-type", "application/json"),))
                yield content

            url = f"http://127.0.0.1:{port}{path}"
            headers = (("content-type", "application/json"),) if body else ()
            request = Request(method=method, url=url, headers=headers, body=body)
            reply = ask(session, request, live, whole=True)
            return reply.head.status, b"".join(reply)

        return get

    return [Patch(library, "get", covering)]
'''

LENS = '''
"""Parrot API."""

from reenact.lenses.registry import Lens
from reenact.lenses.model import Answered, Asked, Message


def _asked(place, body):
    if "say" not in body:
        return None
    model = body.get("model", "")
    return Asked(lens="parrot.chat", provider="parrot", model=model, streams=False, input=body)


def _messages(sent):
    return (Message(role="user", text=sent["say"]),)


def _answered(content):
    return Answered(text=content.only["said"], stop_reason="end", usage={"output": 1})


LENS = Lens(
    name="parrot.chat",
    title="Parrot",
    paths=("/parrot/chat",),
    asked=_asked,
    messages=_messages,
    answered=_answered,
)
'''

PROGRAM = """
import json, sys
import tiny

print(tiny.get(int(sys.argv[1])))
sent = json.dumps({"model": "polly", "say": "hello"}).encode()
print(tiny.get(int(sys.argv[1]), "POST", "/parrot/chat", sent))
"""


def _write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return folder


def _package(folder: Path, name: str, module: str, source: str, entry: str) -> Path:
    """Write the source tree of a package with one module and one entry point."""
    group, _, point = entry.partition(" ")
    project = f"""
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"

        [project]
        name = "{name}"
        version = "1.0"

        [project.entry-points."{group}"]
        {point}

        [tool.hatch.build.targets.wheel]
        only-include = ["{module}.py"]
    """
    return _write(folder / name, {"pyproject.toml": project, f"{module}.py": source})


def _installed_by_hand(site: Path, name: str, entry: str) -> None:
    """Write the metadata of an installed package, without a module."""
    group, _, point = entry.partition(" ")
    _write(site, {f"{name}-2.1.dist-info/entry_points.txt": f"[{group}]\n{point}\n"})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pip has installed a boundary and a lens."""
    folder = tmp_path_factory.mktemp("packages")
    entries = {
        "reenact-tiny": (
            "reenact_tiny",
            BOUNDARY,
            "reenact.boundaries tiny = 'reenact_tiny:patches'",
        ),
        "parrot-lens": ("parrot_lens", LENS, "reenact.lenses 'parrot.chat' = 'parrot_lens:LENS'"),
    }
    trees = [_package(folder / "src", name, *rest) for name, rest in entries.items()]
    site = folder / "site"
    options = "--no-index --no-build-isolation --no-deps --quiet --disable-pip-version-check"
    words = map(str, ("--target", site, *trees))
    command = [sys.executable, "-m", "pip", "install", *options.split(), *words]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return _write(site, {"tiny.py": LIBRARY})


class _Handler(BaseHTTPRequestHandler):
    count = 0

    def do_GET(self) -> None:
        _Handler.count += 1
        self._send({"n": _Handler.count})

    def do_POST(self) -> None:
        _Handler.count += 1
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._send({"said": f"{sent['say']} {_Handler.count}"})

    def _send(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def _run(folder: Path, site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


RECORD = ("-m", "reenact", "run", "--quiet", "--capture", "made", "--")
REPLAY = ("-m", "reenact", "run", "--quiet", "--strict", "--replay", "made", "--")


def test_a_run_records_and_replays_with_installed_packages(
    site: Path, port: int, tmp_path: Path
) -> None:
    _write(tmp_path, {"program.py": PROGRAM})
    recorded = _run(tmp_path, site, *RECORD, sys.executable, "program.py", str(port))
    assert (recorded.returncode, recorded.stderr) == (0, "")
    made = _Handler.count
    replayed = _run(tmp_path, site, *REPLAY, sys.executable, "program.py", str(port))
    assert (replayed.returncode, replayed.stderr) == (0, "")
    assert replayed.stdout == recorded.stdout
    assert _Handler.count == made
    shown = _run(tmp_path, site, "-m", "reenact", "show", "made", "--json").stdout
    events = [json.loads(line) for line in shown.splitlines()]
    [asked] = [one["data"] for one in events if one.get("type") == "llm_request"]
    [answered] = [one["data"] for one in events if one.get("type") == "llm_response"]
    assert (asked["lens"], asked["provider"], asked["model"]) == ("parrot.chat", "parrot", "polly")
    assert (answered["stopReason"], answered["usage"]) == ("end", {"output": 1})


def test_a_session_records_and_replays_with_installed_packages(
    site: Path, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)

    def program() -> list[object]:
        tiny = import_module("tiny")
        sent = json.dumps({"model": "polly", "say": "hi"}).encode()
        return [tiny.get(port), tiny.get(port, "POST", "/parrot/chat", sent)]

    studio = Studio(tmp_path)
    recorded = studio.record(program)
    made = _Handler.count
    with studio.session(strict=True):
        assert program() == recorded
    assert _Handler.count == made
    assert [event.data["lens"] for event in studio.events() if event.type == "llm_request"] == [
        "parrot.chat"
    ]
    assert studio.warnings == []
    monkeypatch.undo()
    installed_lenses(again=True)


def test_a_marked_test_records_and_replays_with_installed_packages(
    site: Path, port: int, tmp_path: Path
) -> None:
    _write(
        tmp_path,
        {
            "test_tiny.py": f"""
                import pytest, tiny

                @pytest.mark.reenact
                def test_it():
                    print(tiny.get({port}))
            """
        },
    )
    command = ("-m", "pytest", "-p", "no:cacheprovider", "-s", "-q")
    first = _run(tmp_path, site, *command)
    assert first.returncode == 0, first.stdout
    made = _Handler.count
    second = _run(tmp_path, site, *command)
    assert second.returncode == 0, second.stdout
    assert _Handler.count == made


def test_explain_boundaries_lists_installed_packages(site: Path, tmp_path: Path) -> None:
    _installed_by_hand(tmp_path, "torn_lens", "reenact.lenses torn.chat = torn_lens:LENS")
    words = ("-m", "reenact", "run", "--explain-boundaries")
    paths = Path(f"{site}{os.pathsep}{tmp_path}")
    lines = [line.split() for line in _run(tmp_path, paths, *words).stdout.splitlines()]
    assert ["tiny", "calls", "tiny.get", "(of", "reenact-tiny", "1.0)"] in lines
    assert ["parrot.chat", "/parrot/chat", "of", "parrot-lens", "1.0"] in lines
    assert any(line[:1] == ["torn.chat"] and line[-2:] == ["torn-lens", "2.1"] for line in lines)
    report = json.loads(_run(tmp_path, paths, *words, "--json").stdout)
    [tiny] = [one for one in report["boundaries"] if one["name"] == "tiny"]
    assert (tiny["package"], tiny["places"]) == ("reenact-tiny 1.0", ["tiny.get"])
    assert sorted(one["name"] for one in report["lenses"]) == ["parrot.chat", "torn.chat"]


@pytest.mark.parametrize(
    "source",
    [
        None,
        "import not_there",
        "def patches(library): raise RuntimeError('no')",
        "from reenact.boundaries.http.api import Patch\n"
        "def patches(library): return [Patch(library, 'gone', lambda original: original)]",
    ],
    ids=["missing", "import", "raises", "changed library"],
)
def test_broken_boundary_is_a_warning_while_recording_and_fails_a_replay(
    source: str | None, port: int, tmp_path: Path
) -> None:
    _write(tmp_path, {"tiny.py": LIBRARY, "program.py": PROGRAM})
    if source is not None:
        (tmp_path / "broken_tiny.py").write_text(source)
    _installed_by_hand(tmp_path, "broken_tiny", "reenact.boundaries tiny = broken_tiny:patches")
    recorded = _run(tmp_path, tmp_path, *RECORD, sys.executable, "program.py", str(port))
    problem = "the boundary tiny of the installed package broken-tiny 2.1 cannot be used: "
    assert recorded.returncode == 0
    assert recorded.stdout.count("(200, ") == 2
    assert recorded.stderr.count(f"reenact: warning: {problem}") == 1
    made = _Handler.count
    replayed = _run(tmp_path, tmp_path, *REPLAY, sys.executable, "program.py", str(port))
    assert replayed.returncode != 0
    assert problem in replayed.stderr
    assert "pip uninstall broken-tiny" in replayed.stderr
    assert _Handler.count == made


def test_replay_of_a_session_refuses_a_broken_boundary_of_an_imported_library(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, {"minute.py": LIBRARY})
    _installed_by_hand(tmp_path, "broken", "reenact.boundaries minute = broken_minute:patches")
    monkeypatch.syspath_prepend(tmp_path)
    studio = Studio(tmp_path)
    studio.record(lambda: __import__("minute").get(port))
    problem = "the boundary minute of the installed package broken 2.1 cannot be used: "
    assert studio.warnings[0].startswith(problem)
    with pytest.raises(reenact.PluginBroken, match="package broken "), studio.session(strict=True):
        pytest.fail("the replay has begun")
    assert reenact.current() is None


@pytest.mark.parametrize(
    "source,reason",
    [
        ("import not_there", "ModuleNotFoundError: No module named 'not_there'"),
        ("LENS = 7", "TypeError: broken_lens:LENS is a int, expected a Lens"),
        (LENS, "ValueError: the lens is named parrot.chat, expected the name of its entry point"),
    ],
    ids=["import", "type", "name"],
)
def test_broken_lens_is_a_warning_while_recording_and_fails_a_replay(
    source: str, reason: str, tmp_path: Path
) -> None:
    _write(tmp_path, {"broken_lens.py": source, "program.py": "print('it ran')"})
    _installed_by_hand(tmp_path, "broken_lens", "reenact.lenses some.chat = broken_lens:LENS")
    problem = (
        f"the lens some.chat of the installed package broken-lens 2.1 cannot be used: {reason}"
    )
    recorded = _run(tmp_path, tmp_path, *RECORD, sys.executable, "program.py")
    assert (recorded.returncode, recorded.stdout) == (0, "it ran\n")
    assert f"reenact: warning: {problem}" in recorded.stderr
    replayed = _run(tmp_path, tmp_path, *REPLAY, sys.executable, "program.py")
    assert (replayed.returncode, replayed.stdout) == (2, "")
    assert problem in replayed.stderr


def test_installed_packages_are_not_imported_before_they_are_needed(
    site: Path, tmp_path: Path
) -> None:
    _write(tmp_path, {"program.py": "import sys; print('reenact_tiny' in sys.modules)"})
    assert _run(tmp_path, site, *RECORD, sys.executable, "program.py").stdout == "False\n"


def test_without_such_packages_nothing_is_loaded_for_them(tmp_path: Path) -> None:
    code = "import sys; print({'reenact.lenses.content', 'importlib.metadata'} & {*sys.modules})"
    _write(tmp_path, {"program.py": code})
    assert _run(tmp_path, tmp_path, *RECORD, sys.executable, "program.py").stdout == "set()\n"
