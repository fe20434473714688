"""Reenact gets into programs of every kind of environment, and out of their sight."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import reenact
from tests.integration.running import PATIENCE, Ran, Theatre

pytestmark = pytest.mark.slow

PROGRAM = """
    import sys
    from ask import ask
    print(ask("/json"))
    print(sys.path, sys.argv, sys.flags, sys.prefix)
"""


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing in it."""
    place = tmp_path_factory.mktemp("environment") / "venv"
    _make_venv(place)
    return place


def _make_venv(place: Path, *flags: str) -> None:
    command = [sys.executable, "-m", "venv", "--without-pip", *flags, str(place)]
    subprocess.run(command, check=True, timeout=PATIENCE)


def _packages(venv: Path) -> Path:
    (found,) = venv.glob("lib/python*/site-packages")
    return found


def _plain(theatre: Theatre, *command: str | Path, **environ: str) -> bytes:
    """What the program prints without us."""
    return subprocess.run(
        list(map(str, command)),
        cwd=theatre.folder,
        env=theatre.environ(**environ),
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    ).stdout


def _same_but_for_the_answer(ran: Ran, plain: bytes) -> bool:
    return ran.out.splitlines()[1:] == plain.splitlines()[1:]


def test_an_environment_without_reenact(venv: Path, theatre: Theatre) -> None:
    """It is lent, and the program does not see where it comes from."""
    theatre.write("program.py", PROGRAM)
    command = (venv / "bin" / "python", "program.py")
    recorded = theatre.check(*command)
    assert recorded.summary.startswith("recorded 1 call in 1 lane")
    assert _same_but_for_the_answer(recorded, _plain(theatre, *command))


def test_nothing_else_of_our_environment_is_lent(venv: Path, theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import importlib.util
        names = ("httpx", "requests", "pytest", "shtab", "anyio", "pip")
        print([name for name in names if importlib.util.find_spec(name) is not None])
        """,
    )
    recorded = theatre.record(venv / "bin" / "python", "program.py")
    assert (recorded.code, recorded.out) == (0, b"[]\n")


def test_a_console_script_of_an_environment(venv: Path, theatre: Theatre) -> None:
    (_packages(venv) / "tool_of_ours.py").write_text(
        "from ask import ask\ndef main():\n    print(ask('/json'))\n    return 4\n", "utf-8"
    )
    script = venv / "bin" / "tool-of-ours"
    script.write_text(
        f"#!{venv}/bin/python\nimport sys\nfrom tool_of_ours import main\nsys.exit(main())\n",
        "utf-8",
    )
    script.chmod(0o755)
    path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
    recorded = theatre.check("tool-of-ours", PATH=path, PYTHONPATH=str(theatre.folder))
    assert recorded.code == 4


def test_another_version_of_reenact_is_not_mixed_with_ours(theatre: Theatre) -> None:
    venv = theatre.folder / "venv"
    _make_venv(venv)
    package = _packages(venv) / "reenact"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '0.0.1'", "utf-8")
    theatre.write("program.py", "print('started')")
    ran = theatre.record(venv / "bin" / "python", "program.py")
    assert (ran.code, ran.out) == (2, b"")
    assert "this program's own is 0.0.1" in ran.err
    assert "hint: run the `reenact` of the program's environment" in ran.err


@pytest.mark.skipif(
    not Path(sys.executable).with_name("uv").exists(), reason="uv is not installed here"
)
def test_uv_run(venv: Path, theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)
    uv = Path(sys.executable).with_name("uv")
    flags = ("--no-project", "--offline", "--no-config", "--python", venv / "bin" / "python")
    command = (uv, "run", *flags, "program.py", "x")
    recorded = theatre.check(*command, UV_CACHE_DIR=str(theatre.folder / "cache"))
    assert recorded.summary.startswith("recorded 1 call in 1 lane")
    assert b"['program.py', 'x']" in recorded.out


def test_a_program_that_starts_another_one(theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)
    recorded = theatre.check("env", "EXTRA=1", sys.executable, "program.py")
    assert recorded.summary.startswith("recorded 1 call in 1 lane")


# What the program brings along


def test_the_own_sitecustomize_is_run(theatre: Theatre) -> None:
    """On the path, where ours is as well; and what it does to the program holds."""
    theatre.write("custom/sitecustomize.py", "import builtins\nbuiltins.customized = __file__\n")
    theatre.write("custom/brought.py", "value = 'brought along'")
    theatre.write(
        "program.py",
        """
        import sys
        import brought
        import sitecustomize
        from ask import ask
        print(ask("/json"))
        print(customized, sitecustomize.__file__, sitecustomize.__spec__.origin, brought.value, sys.path)
        """,
    )
    command = (sys.executable, "program.py")
    custom = str(theatre.folder / "custom")
    recorded = theatre.check(*command, PYTHONPATH=custom)
    assert recorded.code == 0
    assert _same_but_for_the_answer(recorded, _plain(theatre, *command, PYTHONPATH=custom))


def test_customizations_of_an_environment_are_run(
    tmp_path_factory: pytest.TempPathFactory, theatre: Theatre
) -> None:
    """The one of the environment, and the one of the user, which may make calls themselves."""
    venv = tmp_path_factory.mktemp("environment") / "venv"
    _make_venv(venv, "--system-site-packages")
    packages = _packages(venv)
    (packages / "sitecustomize.py").write_text("print('site', flush=True)", "utf-8")
    user = theatre.folder / "user" / packages.relative_to(venv)
    user.mkdir(parents=True)
    (user / "usercustomize.py").write_text("from ask import ask\nprint(ask('/json?user'))", "utf-8")
    theatre.write("program.py", "from ask import ask\nprint(ask('/json?program'))")
    environ = {"PYTHONUSERBASE": str(theatre.folder / "user"), "PYTHONPATH": str(theatre.folder)}
    recorded = theatre.check(venv / "bin" / "python", "program.py", **environ)
    assert recorded.out.startswith(b"site\n{")
    assert [path for _, path in theatre.asked()] == ["/json?program", "/json?user"]


def test_a_sitecustomize_that_fails_does_what_it_does_without_us(theatre: Theatre) -> None:
    theatre.write("custom/sitecustomize.py", "raise ValueError('not today')")
    theatre.write("program.py", "print('went on')")
    ran = theatre.record("program.py", PYTHONPATH=str(theatre.folder / "custom"))
    assert (ran.code, ran.out) == (0, b"went on\n")
    assert "ValueError: not today" in ran.err


# Settings of the interpreter and the machine


def test_a_strict_interpreter(theatre: Theatre) -> None:
    """Nothing of ours warns, leaks a file, or compares text with bytes."""
    theatre.write("program.py", PROGRAM)
    command = (sys.executable, "-W", "error", "-X", "dev", "-bb", "program.py")
    recorded = theatre.check(*command)
    assert (recorded.code, recorded.own[2]) == (0, "")
    assert _same_but_for_the_answer(recorded, _plain(theatre, *command))


def test_other_places_and_languages(theatre: Theatre) -> None:
    """Recorded here, replayed where text, time and sorting are others."""
    theatre.write(
        "program.py",
        """
        from ask import ask
        print(ascii(ask("/echo", '{"prompt": "Größe 蟹 ı"}')))
        """,
    )
    recorded = theatre.record("program.py", LC_ALL="C.UTF-8", TZ="Pacific/Auckland")
    assert recorded.code == 0
    for environ in (
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "TZ": "America/Lima"},
        {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "PYTHONIOENCODING": "latin-1"},
    ):
        assert theatre.replay("program.py", **environ).own == recorded.own


def test_a_stated_hash_seed_is_kept(theatre: Theatre) -> None:
    """While recording it is the user's; a replay has the recorded one."""
    theatre.write("program.py", "import os\nprint(hash('x'), os.environ['PYTHONHASHSEED'])")
    recorded = theatre.record("program.py", PYTHONHASHSEED="7")
    assert recorded.out == _plain(theatre, sys.executable, "program.py", PYTHONHASHSEED="7")
    assert theatre.replay("program.py", PYTHONHASHSEED="8").out == recorded.out
    assert theatre.replay("program.py").out == recorded.out


def test_a_program_that_clears_its_environment(theatre: Theatre) -> None:
    """Its children take part all the same."""
    theatre.write("child.py", "from ask import ask\nprint(ask('/json?child'), flush=True)")
    theatre.write(
        "program.py",
        """
        import os, subprocess, sys
        server = os.environ["SERVER"]
        os.environ.clear()
        os.environ["SERVER"] = server
        subprocess.run([sys.executable, "child.py"], check=True)
        """,
    )
    assert theatre.check("program.py").summary.startswith("recorded 2 calls in 2 lanes")


@pytest.mark.parametrize("job", ["--capture", "--record-net-to"])
def test_a_boundary_that_is_not_on_the_path_is_an_error_and_nothing_runs(
    job: str, theatre: Theatre
) -> None:
    theatre.write("program.py", "print('ran')\n")
    ran = theatre.run(job, "c", "--boundary", "not_there", "--", sys.executable, "program.py")
    assert (ran.code, ran.out) == (2, b"")
    assert "the module not_there of --boundary cannot be imported" in ran.err
    assert "hint: the folder it lies in has to be on the path" in ran.err
    assert "live" not in ran.err
    assert not (theatre.folder / "c").exists()


@pytest.mark.thinned(3)
@pytest.mark.parametrize("words", [["PYTHONPATH=own"], ["-i"], ["-u", "PYTHONPATH"]], ids=str)
def test_a_program_that_env_gives_other_variables(words: list[str], theatre: Theatre) -> None:
    """It went to the server in a replay."""
    theatre.write("own/mine.py", "WORD = 'mine'")
    theatre.write(
        "program.py",
        """
        import os
        from importlib.util import find_spec
        from ask import ask
        print(find_spec("mine") is not None, ask("/json"))
        """,
    )
    server = f"SERVER={theatre.server.url}"
    command = ("env", *words, server, sys.executable, "program.py")
    recorded = theatre.check(*command)
    assert recorded.out.startswith(b"True" if words == ["PYTHONPATH=own"] else b"False")
    assert [lane for lane, _ in theatre.asked()] == ["0"]


@pytest.mark.parametrize("words", [["env"], ["nice", "-n", "5"], ["env", "-S"]], ids=str)
def test_a_launcher_of_another_program_is_refused_in_a_replay(
    words: list[str], theatre: Theatre
) -> None:
    theatre.write("program.py", "from ask import ask; print(ask('/json'))")
    theatre.record("program.py")
    replayed = theatre.replay(*words, "sh", "-c", f"{sys.executable} program.py")
    assert replayed.code == 2
    assert "is not a Python program" in replayed.err
    assert replayed.out == b""


def test_process_that_outlives_its_run_does_not_run_live(tmp_path: Path) -> None:
    injected = Path(reenact.__file__).with_name("runs") / "inject"
    environ = {
        **os.environ,
        "PYTHONPATH": str(injected),
        "REENACT_RUN": str(tmp_path / "deleted"),
    }
    done = subprocess.run(
        [sys.executable, "-c", "print('ran')"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot start in this program" in done.stderr
    assert "Traceback" not in done.stderr
