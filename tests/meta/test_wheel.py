"""What is shipped: the wheel's contents, and that it works in an empty environment."""

from __future__ import annotations

import json
import subprocess
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.meta.conftest import Installation
from tests.meta.tree import SOURCE, modules


def _version() -> str:
    space: dict[str, str] = {}
    exec((SOURCE / "reenact" / "_version.py").read_text(encoding="utf-8"), space)
    return space["__version__"]


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "reenact").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert shipped == wanted
    assert "reenact/py.typed" in shipped


def test_wheel_says_what_it_is(wheel: Path) -> None:
    info = f"reenact-{_version()}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        assert metadata["Name"] == "reenact"
        assert metadata["Version"] == _version()
        assert metadata["License-Expression"] == "Apache-2.0"
        assert metadata["Requires-Python"] == ">=3.11"
        assert {"all", "fast", "seal"} <= set(metadata.get_all("Provides-Extra", []))
        assert (
            "reenact = reenact.cli.main:entry" in archive.read(f"{info}/entry_points.txt").decode()
        )
        assert f"{info}/licenses/LICENSE" in archive.namelist()


@pytest.mark.parametrize("extras", ["core", "full"])
def test_installed_command_works(
    extras: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    installed: Installation = request.getfixturevalue(extras)
    version = installed.run("reenact", "--version", cwd=tmp_path)
    assert (version.returncode, version.stderr) == (0, "")
    assert _version() in version.stdout
    usage = installed.run("reenact", "--help", cwd=tmp_path)
    assert (usage.returncode, usage.stderr) == (0, "")
    assert "usage: reenact" in usage.stdout
    misuse = installed.run("reenact", "no-such-command", cwd=tmp_path)
    assert misuse.returncode == 2
    assert "Traceback" not in misuse.stderr


@pytest.mark.parametrize("extras", ["core", "full"])
def test_requirements_are_met(extras: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    installed: Installation = request.getfixturevalue(extras)
    done = installed.run("python", "-m", "pip", "check", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


_IMPORT_EACH = """
import importlib, json, sys

missing = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as problem:
        missing[name] = problem.name
print(json.dumps(missing))
"""


def test_every_module_imports_without_any_extra(core: Installation, tmp_path: Path) -> None:
    """In the room of a client library a module may want that library, for it is not imported
    before the library is; in that of the server what the extra ``server`` brings. It may want
    nothing else that is not there."""
    done = core.run("python", "-W", "error", "-c", _IMPORT_EACH, *modules(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    missing: dict[str, str] = json.loads(done.stdout)
    unmet = {name: wanted for name, wanted in missing.items() if wanted not in _libraries(name)}
    assert unmet == {}


_BROUGHT = {"mcp": ("anyio",)}
"""What a library never comes without."""

_OF_SERVER = (
    "aiosqlite",
    "alembic",
    "cryptography",
    "h11",
    "jwt",
    "sqlalchemy",
    "starlette",
    "uvicorn",
)


def _libraries(module: str) -> tuple[str, ...]:
    """The library in whose room ``module`` is, and what that brings."""
    path = module.split(".")
    if path[:2] == ["reenact", "pytest_plugin"]:
        return ("pytest",)  # which is who loads it
    if path[:2] == ["reenact", "server"]:
        return _OF_SERVER
    if path[:2] != ["reenact", "boundaries"] or len(path) not in (3, 4):
        return ()
    return path[2], *_BROUGHT.get(path[2], ())


@pytest.mark.slow
def test_demo_server_needs_no_more_than_the_extra_all(full: Installation, tmp_path: Path) -> None:
    command = [str(full.bin / "reenact"), "serve", "--demo", "--port", "0"]
    environment = full.environment(tmp_path)
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stderr is not None
        said: list[str] = []
        try:
            for line in demo.stderr:
                said.append(line)
                if "/demo?token=" in line:
                    break
        finally:
            demo.terminate()
        demo.stderr.read()
    assert demo.returncode == 0, said
    assert "/demo?token=" in said[-1]
    assert "does not answer" not in "".join(said)


def test_core_has_no_extra_in_it(core: Installation, tmp_path: Path) -> None:
    code = "from importlib.util import find_spec as f; print(f('cryptography'), f('hyperscan'))"
    assert core.run("python", "-c", code, cwd=tmp_path).stdout.split() == ["None", "None"]


def test_installed_package_is_the_wheel_not_the_tree(full: Installation, tmp_path: Path) -> None:
    done = full.run("python", "-c", "import reenact; print(reenact.__file__)", cwd=tmp_path)
    assert Path(done.stdout.strip()).is_relative_to(full.folder)


_RECORD = """
import reenact
from pathlib import Path

with reenact.start_recording("run") as recording:
    recording.add(reenact.RunStart(input="hello"))
    recording.add(reenact.RunEnd(status="ok"))
assert reenact.verify(Path("run")).manifest.event_count == 2
"""
_WITHOUT_SEAL = """
from pathlib import Path
from reenact.errors import ExtraMissing
from reenact.store.seal import Seal
from reenact.store.sign import new_key

for feature in (lambda: Seal(bytes(32)), lambda: new_key(Path("key"))):
    try:
        feature()
    except ExtraMissing as problem:
        print(problem.hint)
"""


@pytest.mark.parametrize("extras", ["core", "full"])
def test_installed_library_records_and_verifies(
    extras: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    installed: Installation = request.getfixturevalue(extras)
    done = installed.run("python", "-W", "error", "-c", _RECORD, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    shown = installed.run("reenact", "verify", "run", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr


def test_missing_extra_is_named_with_the_way_to_get_it(core: Installation, tmp_path: Path) -> None:
    library = core.run("python", "-c", _WITHOUT_SEAL, cwd=tmp_path)
    assert library.stdout.splitlines() == ["pip install 'reenact[seal]'"] * 2, library.stderr
    command = core.run("reenact", "sign", "--new-key", "key", cwd=tmp_path)
    assert command.returncode == 2
    assert "hint: pip install 'reenact[seal]'" in command.stderr
    assert "Traceback" not in command.stderr
