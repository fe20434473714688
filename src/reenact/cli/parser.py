"""Every argument and option of every command.

Built with argparse alone. The documentation and the shell completion are made from the same table.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from reenact.cli.commands import ABOUT, COMMANDS, Command, overview

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = [
    "COMMANDS",
    "FORMATS",
    "SHELLS",
    "Command",
    "Misuse",
    "Parser",
    "columns",
    "command_parser",
    "make_parser",
]

SHELLS = ("bash", "zsh", "fish", "tcsh")
FORMATS = ("vcr", "vcr-json", "har", "rrbin", "boruna", "mitmproxy")

_NARROW, _USUAL, _WIDE = 40, 100, 120
_NEAREST = "REENACT_ROOT, or the nearest one upwards"


class Misuse(Exception):
    """A command line that makes no sense. ``prog`` is the command whose help says more."""

    def __init__(self, message: str, prog: str) -> None:
        super().__init__(message)
        self.prog = prog


def columns() -> int:
    """How wide the screen is: what ``COLUMNS`` says, else the terminal, else a usual width."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    try:
        return os.get_terminal_size(1).columns or _USUAL
    except OSError:
        return _USUAL


def _broken(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width``, as far as its words allow."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    return lines


class _Help(argparse.RawDescriptionHelpFormatter):
    """Finds its width and breaks lines itself: argparse would import shutil (and with it three
    compressors) for the one and textwrap for the other."""

    def __init__(self, prog: str) -> None:
        width = max(_NARROW, min(columns(), _WIDE)) - 2
        super().__init__(prog, max_help_position=28, width=width)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _broken(text, width)


class Parser(argparse.ArgumentParser):
    """Raises :class:`Misuse` instead of ending the process."""

    takes_program = False
    """Is what comes after ``--`` a program, with its own options?"""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What one command cannot use, the one above it cannot either, and knows less about."""
        program: list[str] = []
        if self.takes_program and args is not None and "--" in args:
            at = list(args).index("--")
            args, program = args[:at], list(args[at + 1 :])
        found, rest = super().parse_known_args(args, namespace)
        if self.takes_program:
            found.command_line += program
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        raise Misuse(message, self.prog)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return number


def _positive(text: str) -> int:
    number = _number(text)
    if not number:
        raise argparse.ArgumentTypeError("counting starts at 1")
    return number


def _recording(parser: Parser, *, many: bool = False) -> None:
    what = "a capture directory or a tape file"
    if many:
        parser.add_argument("path", nargs="+", metavar="PATH", help=f"{what}; several may be given")
    else:
        parser.add_argument("path", metavar="PATH", help=what)


def _json(parser: Parser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=f"print {what}")


def _run(parser: Parser) -> None:
    add = parser.add_argument
    add("--capture", metavar="DIR", help="record everything to this capture directory")
    add("--replay", metavar="DIR", help="re-enact this recording; `last` is the last one made")
    add("--record-net-to", metavar="TAPE", help="record HTTP and websockets alone, in one file")
    add("--replay-net-from", metavar="TAPE", help="re-enact these; everything else runs live")
    add("--live", action="store_true", help="run without recording")
    add(
        "--mode",
        choices=("record", "record_missing", "rewrite", "update"),
        help="add what is missing in the recording, or, if the program succeeds, replace it or "
        "update what differs",
    )
    add("--overwrite", action="store_true", help="replace an existing recording")
    add("--append", action="store_true", help="go on at the end of an existing recording")
    add("--strict", action="store_true", help="a divergence ends the replay (default in CI)")
    add("--lenient", action="store_true", help="go on after divergences, and list them")
    add("--policy", metavar="ID", help="the policy that holds, otherwise the default")
    add(
        "--allow",
        action="append",
        default=[],
        metavar="NAME",
        help="let one boundary through, unrecorded and counted, e.g. process.exec (repeatable)",
    )
    add(
        "--boundary",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module of yours that covers another client library (repeatable)",
    )
    add("--isolate", action="store_true", help="run in a network namespace with no way out")
    add("--report", metavar="FILE", help="write what happened as JSON")
    add(
        "--explain-boundaries",
        action="store_true",
        help="say what is covered; with a program, run it live and say whose its modules are",
    )
    _json(parser, "that as JSON")
    add("-q", "--quiet", action="store_true", help="no summary line")
    add("-v", "--verbose", action="store_true", help="say which client libraries are covered")
    add("command_line", nargs=argparse.REMAINDER, metavar="-- CMD", help="the program")


def _fork(parser: Parser) -> None:
    add = parser.add_argument
    parser.takes_program = True
    add("path", metavar="RUN", help="the recording to fork: a capture directory, a tape, or `last`")
    add(
        "--at",
        metavar="WHERE",
        help="the call to fork at: the seq of an event, a step such as llm:3, tool:2 or call:7, or "
        "last-llm (default)",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="change the answer there ($.response…, $.result), or what is asked ($.request…, "
        "$.args…) (repeatable)",
    )
    add("--model", metavar="NAME", help="send model requests to this model from there on")
    add(
        "--live",
        metavar="KINDS",
        help="only these go live after the point, e.g. llm,tools; others are served where recorded",
    )
    add("--into", metavar="DIR", help="the new recording, otherwise a folder under .reenact/runs/")
    add("--sweep", action="store_true", help="fork at every step, and count how often runs fail")
    add("--each", metavar="KIND", help="sweep over llm (default), tool, call or another kind")
    add("-k", type=_positive, metavar="N", help="forks per step of a sweep (default: 1)")
    add("-j", dest="jobs", type=_positive, metavar="N", help="forks at a time (default: 1)")
    add("--check", metavar="CMD", help="a fork has failed, too, if this command fails")
    add("--policy", metavar="ID", help="the policy that holds, otherwise the default")
    add(
        "--allow",
        action="append",
        default=[],
        metavar="NAME",
        help="let one boundary through, unrecorded and counted (repeatable)",
    )
    add(
        "--boundary",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module of yours that covers another client library (repeatable)",
    )
    add("--report", metavar="FILE", help="write what happened as JSON")
    _json(parser, "the table of a sweep as JSON")
    add("-q", "--quiet", action="store_true", help="no summary line")
    add("command_line", nargs="*", metavar="-- CMD", help="the program")


def _show(parser: Parser) -> None:
    add = parser.add_argument
    _recording(parser)
    add("seq", nargs="?", type=_positive, metavar="SEQ", help="show this one event, whole")
    add("--type", action="append", metavar="TYPE", help="only events of this type (repeatable)")
    add("--lane", action="append", metavar="LANE", help="only events of this lane (repeatable)")
    add("--grep", metavar="TEXT", help="only events whose data contain this text")
    add("--from", dest="first", type=_positive, metavar="SEQ", help="start at this event")
    add("--to", dest="last", type=_positive, metavar="SEQ", help="end with this event")
    add("--limit", type=_positive, metavar="N", help="at most so many events")
    add("--follow", action="store_true", help="wait for more until the recording is finished")
    add("--width", type=_number, metavar="N", help="width of the table, 0 for whole lines")
    _json(parser, "whole events as JSON, one per line")


def _view(parser: Parser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", help="a capture directory or a tape file; `last` is the last run")
    add(
        "-o", "--output", metavar="FILE", help="the file to write, otherwise RUN.html where you are"
    )
    add(
        "--report",
        metavar="FILE",
        help="mark the divergences of a replay, as run --report wrote them",
    )
    add("--draws", action="store_true", help="show what was drawn from clock and chance, too")
    _json(parser, "what was written as JSON")


def _diff(parser: Parser) -> None:
    add = parser.add_argument
    add("one", metavar="A", help="a capture directory or a tape file; `last` is the last run")
    add("other", metavar="B", help="the recording to compare with it")
    add(
        "--ignore",
        action="append",
        default=[],
        metavar="PATH",
        help="what stands there does not count, e.g. $.request.body.user or $..id (repeatable)",
    )
    add("--policy", metavar="ID", help="what this policy ignores does not count, either")
    add("--all", action="store_true", help="everything counts: draws, dates, ids, all headers")
    add("--lane", action="append", metavar="LANE", help="only this lane of A (repeatable)")
    add("--stat", action="store_true", help="only the numbers")
    add("--width", type=_number, metavar="N", help="width of the lines, 0 for whole ones")
    _json(parser, "the comparison as JSON")


def _regress(parser: Parser) -> None:
    add = parser.add_argument
    parser.takes_program = True
    add("path", nargs="+", metavar="DIR", help="recordings, and folders with recordings in them")
    add("--target", metavar="MODULE:FUNCTION", help="call this function with the recorded input")
    add("-j", dest="jobs", type=_positive, metavar="N", help="how many at a time (default: cores)")
    add("--timeout", type=_seconds, metavar="SECONDS", help="end a re-enactment that takes longer")
    add("-x", "--fail-fast", action="store_true", help="stop at the first that goes wrong")
    add("--shard", metavar="N/OF", help="only this part of the recordings, e.g. 2/5")
    add("--journal", metavar="FILE", help="write every outcome there as it comes")
    add("--resume", action="store_true", help="go on where the journal ends")
    add("--baseline", metavar="FILE", help="what goes wrong as this file says does not count")
    add("--update-baseline", action="store_true", help="write what goes wrong now to that file")
    add("--policy", metavar="ID", help="the policy that holds, otherwise the default")
    add(
        "--allow",
        action="append",
        default=[],
        metavar="NAME",
        help="let one boundary through, unrecorded and counted (repeatable)",
    )
    add(
        "--boundary",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module of yours that covers another client library (repeatable)",
    )
    add("--junit", metavar="FILE", help="write the outcomes as JUnit XML")
    add("--report", metavar="FILE", help="write the outcomes as JSON")
    _json(parser, "the outcomes as JSON")
    add("-q", "--quiet", action="store_true", help="no progress")
    add("command_line", nargs="*", metavar="-- CMD", help="the program")


def _stats(parser: Parser) -> None:
    _recording(parser, many=True)
    _json(parser, "the numbers as JSON, one line per recording")


def _verify(parser: Parser) -> None:
    _recording(parser, many=True)
    parser.add_argument(
        "--key", metavar="FILE", help="also require a signature that this public key confirms"
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing about what is whole")
    _json(parser, "the findings as JSON, one line per recording")


def _sign(parser: Parser) -> None:
    add = parser.add_argument
    add("path", nargs="?", metavar="PATH", help="the capture directory or tape file to sign")
    add("--key", metavar="FILE", help="the private key to sign with")
    add("--new-key", metavar="FILE", help="make a key at FILE, its public half at FILE.pub")
    _json(parser, "what was done as JSON")


def _recover(parser: Parser) -> None:
    _recording(parser)
    parser.add_argument(
        "--cut", action="store_true", help="end it before the first line that is not an event"
    )
    _json(parser, "what was kept and cut as JSON")


def _migrate(parser: Parser) -> None:
    parser.add_argument("old", metavar="OLD", help="the capture directory of an earlier version")
    parser.add_argument("new", metavar="NEW", help="where to write the new one")
    _json(parser, "what was done as JSON")


def _redact(parser: Parser) -> None:
    add = parser.add_argument
    add("source", metavar="SRC", help="the capture directory or tape file to take secrets out of")
    add("target", metavar="DST", help="where to write the new one (a tape if it ends in .jsonl)")
    add(
        "--profile",
        choices=("default", "strict"),
        default="default",
        help="which rules: default, or strict with e-mail addresses, long random strings and "
        "unlisted headers",
    )
    add(
        "--value",
        action="append",
        default=[],
        metavar="TEXT",
        help="a text to take out wherever it appears (repeatable; other users of the machine may "
        "see it)",
    )
    add("--value-from", metavar="FILE", help="such texts from a file, one per line; - is stdin")
    add(
        "--salt-from",
        metavar="FILE",
        help="equal secrets get equal pseudonyms, made with the salt in this file",
    )
    _json(parser, "what was removed as JSON, without the values")


def _pack(parser: Parser) -> None:
    parser.add_argument("path", metavar="RECORDING", help="a capture directory or a tape file")
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="the file to write, otherwise RECORDING.reenact"
    )
    _json(parser, "what was done as JSON")


def _unpack(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file that pack has written")
    parser.add_argument(
        "target", nargs="?", metavar="TARGET", help="where to, otherwise FILE without .reenact"
    )
    parser.add_argument(
        "--most",
        type=float,
        metavar="GIB",
        default=16.0,
        help="refuse a file that unpacks to more than so many GiB (default: 16)",
    )
    _json(parser, "what was done as JSON")


def _import(parser: Parser) -> None:
    add = parser.add_argument
    add("source", nargs="?", metavar="PATH", help="a file, or a folder of cassettes")
    add("--vcr", metavar="PATH", help="the same, of vcrpy or pytest-recording")
    add("-o", "--output", metavar="DEST", help="the tape, or the folder for the tapes")
    add("--in-place", action="store_true", help="write each tape beside its original (default)")
    add("--format", choices=FORMATS, help="what it is, otherwise told by the name and contents")
    add("--overwrite", action="store_true", help="replace tapes that are there already")
    add(
        "--redaction",
        choices=("default", "strict", "none"),
        help="which secrets are taken out, otherwise as the policy says; in CI strict",
    )
    add("--policy", metavar="ID", help="the policy that says what is secret and what is compared")
    _root(parser, f"{_NEAREST}, or where you are")
    _json(parser, "what was done as JSON, one line per file")


def _export(parser: Parser) -> None:
    add = parser.add_argument
    _recording(parser)
    add("file", metavar="FILE", help="the file to write, or - for stdout")
    add(
        "--format",
        choices=[name for name in FORMATS if name != "mitmproxy"],
        help="otherwise told by the name: .har, .yaml, .rrbin",
    )
    add("--overwrite", action="store_true", help="replace a file that is there already")
    _json(parser, "what was written and what was lost as JSON")


def _root(parser: Parser, otherwise: str) -> None:
    parser.add_argument("--root", metavar="DIR", help=f"the folder with .reenact; else {otherwise}")


def _policy_init(parser: Parser) -> None:
    _root(parser, "where you are")
    _json(parser, "what was written as JSON")


def _policy_import(parser: Parser) -> None:
    parser.add_argument("folder", metavar="DIR", help="the folder arch/rr of an X07 project")
    _root(parser, f"{_NEAREST}, or where you are")
    _json(parser, "the report as JSON")


def _policy_check(parser: Parser) -> None:
    _root(parser, _NEAREST)
    _json(parser, "the findings as JSON")


def _policy_show(parser: Parser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="which policy, otherwise the default")
    _root(parser, _NEAREST)
    _json(parser, "the settings as JSON")


def _policy_pin(parser: Parser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="which policy, otherwise all")
    _root(parser, _NEAREST)
    _json(parser, "the pins as JSON")


def _cassettes(parser: Parser) -> None:
    parser.add_argument("dir", nargs="?", default=".", metavar="DIR", help="where to look, else .")


def _cassettes_ls(parser: Parser) -> None:
    _cassettes(parser)
    _json(parser, "one line of JSON per cassette")


def _cassettes_unused(parser: Parser) -> None:
    _cassettes(parser)
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="what pytest --reenact-report has written; else pytest is asked to collect the tests",
    )
    _json(parser, "one line of JSON per cassette")


def _cassettes_prune(parser: Parser) -> None:
    _cassettes_unused(parser)
    parser.add_argument("--yes", action="store_true", help="remove them; else they are only listed")


def _cassettes_check(parser: Parser) -> None:
    parser.add_argument(
        "path", nargs="*", metavar="PATH", help="files and folders, else the folder you are in"
    )
    _json(parser, "one line of JSON per finding")


def _capabilities(parser: Parser) -> None:
    _json(parser, "the report as JSON")


def _completion(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell to complete for")


_ARGUMENTS: dict[str, Callable[[Parser], None]] = {
    "run": _run,
    "fork": _fork,
    "show": _show,
    "view": _view,
    "diff": _diff,
    "regress": _regress,
    "stats": _stats,
    "verify": _verify,
    "sign": _sign,
    "recover": _recover,
    "migrate": _migrate,
    "redact": _redact,
    "pack": _pack,
    "unpack": _unpack,
    "import": _import,
    "export": _export,
    "policy init": _policy_init,
    "policy import": _policy_import,
    "policy check": _policy_check,
    "policy show": _policy_show,
    "policy pin": _policy_pin,
    "cassettes ls": _cassettes_ls,
    "cassettes unused": _cassettes_unused,
    "cassettes stale": _cassettes_ls,
    "cassettes prune": _cassettes_prune,
    "cassettes check": _cassettes_check,
    "capabilities": _capabilities,
    "completion": _completion,
}


class _Top(Parser):
    """Its help is the overview, which needs no argparse."""

    def format_help(self) -> str:
        return overview()


def make_parser(*, whole: bool = True) -> Parser:
    """The parser of the whole command line; otherwise only the names of the commands."""
    parser = _Top(prog="reenact", description=ABOUT, allow_abbrev=False, formatter_class=_Help)
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", prog="reenact", parser_class=Parser
    )
    for command in COMMANDS:
        settings = _settings(command) if whole else {"add_help": False}
        under = commands.add_parser(command.name, help=command.summary, **settings)
        if whole:
            _fill(under, command, command.name)
    return parser


def command_parser(name: str) -> Parser | None:
    """The parser of one command alone, which is ready sooner; None when there is no such command."""
    for command in COMMANDS:
        if command.name == name:
            parser = Parser(prog=f"reenact {name}", **_settings(command))
            _fill(parser, command, name)
            return parser
    return None


def _fill(parser: Parser, command: Command, path: str) -> None:
    """The arguments of ``command``, or the commands under it. ``path`` is its key in the table."""
    if not command.under:
        _ARGUMENTS[path](parser)
        parser.set_defaults(run=command.run)
        return
    commands = parser.add_subparsers(
        dest="action",
        metavar="ACTION",
        title="commands",
        prog=f"reenact {path}",
        help="what to do",
        parser_class=Parser,
        required=True,
    )
    for one in command.under:
        under = commands.add_parser(one.name, help=one.summary, **_settings(one))
        _fill(under, one, f"{path} {one.name}")


def _settings(command: Command) -> dict[str, Any]:
    return {
        "description": "\n".join(_broken(command.description, min(columns(), _USUAL) - 2)),
        "epilog": f"example: {command.example}",
        "formatter_class": _Help,
        "allow_abbrev": False,
    }
