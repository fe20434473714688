"""The way in: help, version, misuse, and how little they load."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact import __version__
from reenact.cli._commands import TABLE
from reenact.cli._parser import Command, Group, command_parser, find_command, make_parser
from tests.cli.conftest import Run
from tests.cli.samples import record

NAMES = [name for name, _, _ in TABLE]


def _parser(name: str) -> argparse.ArgumentParser:
    parser = command_parser(name)
    assert parser is not None
    return parser


def _actions() -> Iterator[tuple[str, argparse.Action]]:
    for name in NAMES:
        yield from _below(name, _parser(name))


def _below(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    for action in parser._actions:
        yield name, action
        if isinstance(action, argparse._SubParsersAction):
            for word, under in action.choices.items():
                yield from _below(f"{name} {word}", under)


def _leaves() -> Iterator[tuple[str, Command]]:
    """Return all commands except groups, with their complete names."""
    for name in NAMES:
        found = find_command(name)
        if isinstance(found, Group):
            yield from ((f"{name} {action}", command) for action, command in found.commands.items())
        elif found is not None:
            yield name, found


def test_version(run: Run) -> None:
    for words in (["--version"], ["-V"]):
        ran = run(*words)
        assert (ran.code, ran.out, ran.err) == (0, f"reenact {__version__}\n", "")


def test_help_names_every_command_and_the_exit_codes(run: Run) -> None:
    ran = run("--help")
    assert (ran.code, ran.err) == (0, "")
    assert re.findall(r"^  ([a-z]+)  +\S", ran.out, re.MULTILINE) == NAMES
    assert "3 damaged or unreadable" in ran.out
    assert ran.out == run("-h").out == make_parser().format_help()


def test_nothing_asked_is_misuse_and_gets_the_help(run: Run) -> None:
    ran = run()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == run("--help").out


@pytest.mark.parametrize("name", NAMES)
def test_command_has_help_with_an_example(name: str, run: Run) -> None:
    ran = run(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"usage: reenact {name} ")
    (example,) = re.findall(r"^example: (.*)", ran.out, re.MULTILINE)
    assert f"reenact {name} " in example


def test_every_argument_and_option_is_explained() -> None:
    silent = [(name, one.dest) for name, one in _actions() if not one.help]
    assert silent == []
    assert all(summary for _, _, summary in TABLE)
    assert all(found and found.description for found in map(find_command, NAMES))
    for name, command in _leaves():
        assert command.description
        assert command.summary or " " not in name


def test_examples_are_command_lines_that_work() -> None:
    for name, command in _leaves():
        top, *under = name.split()
        _, found, words = command.example.partition(f"reenact {name}")
        assert found
        args = _parser(top).parse_args([*under, *words.rstrip(')"').split()])
        assert args.run == command.run


def test_wherever_there_is_a_table_there_is_json() -> None:
    with_json = {name for name, one in _actions() if "--json" in one.option_strings}
    assert with_json == {name for name, _ in _leaves()} - {"completion"}


def test_the_whole_parser_knows_what_each_command_knows() -> None:
    whole = make_parser()
    (sub,) = (one for one in whole._actions if isinstance(one, argparse._SubParsersAction))
    for name, under in sub.choices.items():
        assert [one.dest for one in under._actions] == [one.dest for one in _parser(name)._actions]


@pytest.mark.parametrize(
    "words, problem, hint",
    [
        (["no-such-command"], "no-such-command", "reenact --help"),
        (["--no-such-option"], "--no-such-option", "reenact --help"),
        (["show"], "PATH", "reenact show --help"),
        (["show", "x", "--limit", "many"], "--limit", "reenact show --help"),
        (["show", "x", "0"], "counting starts at 1", "reenact show --help"),
        (["show", "x", "--lim", "1"], "--lim", "reenact show --help"),
        (["redact", "a", "b", "--profile", "none"], "none", "reenact redact --help"),
        (["completion", "cmd.exe"], "cmd.exe", "reenact completion --help"),
    ],
)
def test_misuse_says_what_and_where_to_look(
    words: list[str], problem: str, hint: str, run: Run
) -> None:
    ran = run(*words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("reenact: error: ")
    assert problem in ran.err
    assert ran.hint == hint


def test_misuse_in_json_mode_is_json_too(run: Run) -> None:
    ran = run("stats", "--json")
    assert ran.code == 2
    assert ran.json()["error"]["code"] == "usage"
    assert ran.json()["error"]["hint"] == ran.hint == "reenact stats --help"


def test_escapes_in_arguments_do_not_reach_the_screen(run: Run) -> None:
    ran = run("show", "no\x1b[31msuch\nplace")
    assert ran.code == 3
    assert "\x1b" not in ran.err
    assert "no\\u001b[31msuch\\nplace" in ran.err


def test_what_the_system_refuses_is_an_error_without_a_traceback(run: Run) -> None:
    for name in ("show", "stats", "verify", "recover"):
        ran = run(name, "n" * 5000, "--json")
        assert ran.code == 3
        assert "too long" in ran.err
        assert ran.json()["error"]["fields"]["errno"]
        assert ran.hint


def _loaded(*words: str | Path) -> set[str]:
    code = (
        "import sys; from reenact.cli.main import main; code = main(sys.argv[1:], alone=True);"
        "print('\\n' + ' '.join(sys.modules)); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", _here(code), *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def _here(code: str) -> str:
    """With the search path of this process, which ``-I`` would not give."""
    return f"import sys; sys.path[:] = {json.dumps(sys.path)}; {code}"


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_load_nothing(word: str) -> None:
    heavy = {"argparse", "json", "msgspec", "orjson", "pathlib", "reenact.errors", "shtab"}
    assert _loaded(word) & heavy == set()


def test_a_command_imports_no_other_command() -> None:
    loaded = _loaded("redact", "--help")
    folders = ("record", "inspect", "manage", "server")
    below = {
        name for name in loaded if name.startswith(tuple(f"reenact.cli.{one}." for one in folders))
    }
    assert below == {"reenact.cli.manage.rewrite"}
    assert loaded & {"http.client", "reenact.engine", "reenact.exchange"} == set()


def test_a_command_does_not_load_what_python_has_itself(tmp_path: Path) -> None:
    loaded = _loaded("verify", record(tmp_path / "run"))
    assert "msgspec" in loaded
    assert "typing_extensions" not in loaded


@pytest.mark.parametrize("name", ["show", "stats", "verify"])
def test_looking_at_a_capture_does_not_load_what_writes_one(name: str, tmp_path: Path) -> None:
    loaded = _loaded(name, record(tmp_path / "run"))
    heavy = {
        "cryptography",
        "hyperscan",
        "lzma",
        "reenact.policy.redaction.redactor",
        "reenact.store.sinks.base",
    }
    assert loaded & heavy == set()
