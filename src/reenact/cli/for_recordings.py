"""Arguments of commands about recordings."""

from __future__ import annotations

from collections.abc import Callable

from reenact.cli.parsing import (
    NEAREST,
    RECORDING,
    Parser,
    json_flag,
    number,
    positive,
    recording,
    root,
)

__all__ = ["ARGUMENTS", "FORMATS"]


FORMATS = ("vcr", "vcr-json", "har", "rrbin", "boruna", "mitmproxy")


def _show(parser: Parser) -> None:
    add = parser.add_argument
    recording(parser)
    add("seq", nargs="?", type=positive, metavar="SEQ", help="show this one event, whole")
    add("--type", action="append", metavar="TYPE", help="only events of this type (repeatable)")
    add("--lane", action="append", metavar="LANE", help="only events of this lane (repeatable)")
    add("--grep", metavar="TEXT", help="only events whose data contain this text")
    add("--from", dest="first", type=positive, metavar="SEQ", help="start at this event")
    add("--to", dest="last", type=positive, metavar="SEQ", help="end with this event")
    add("--limit", type=positive, metavar="N", help="at most so many events")
    add("--follow", action="store_true", help="wait for more until the recording is finished")
    add("--timeline", action="store_true", help="draw lanes as rows and calls as bars over time")
    add(
        "--report",
        metavar="FILE",
        help="mark the divergences of a replay in the timeline, as run --report wrote them",
    )
    add("--width", type=number, metavar="N", help="width of the table, 0 for whole lines")
    json_flag(parser, "whole events as JSON, one per line; of a timeline one object")


def _view(parser: Parser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", help=RECORDING)
    add(
        "-o", "--output", metavar="FILE", help="the file to write, otherwise RUN.html where you are"
    )
    add(
        "--report",
        metavar="FILE",
        help="mark the divergences of a replay, as run --report wrote them",
    )
    add("--draws", action="store_true", help="show what was drawn from clock and chance, too")
    json_flag(parser, "what was written as JSON")


def _diff(parser: Parser) -> None:
    add = parser.add_argument
    add("one", metavar="A", help=RECORDING)
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
    add("--html", metavar="FILE", help="write a page for a browser, with both side by side")
    add("--width", type=number, metavar="N", help="width of the lines, 0 for whole ones")
    json_flag(parser, "the comparison as JSON")


def _explain(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "what",
        metavar="WHAT",
        help="a report or a divergence as JSON (- is stdin), a recording that was replayed, or `last`: "
        "the last replay that diverged",
    )
    add("--recording", metavar="RUN", help="the recording that the report is about")
    add(
        "-n",
        "--number",
        type=positive,
        default=1,
        metavar="N",
        help="which divergence of the report (default: the first)",
    )
    add("--width", type=number, metavar="N", help="width of the lines, 0 for whole ones")
    json_flag(parser, "the explanation as JSON")


def _stats(parser: Parser) -> None:
    recording(parser, many=True)
    json_flag(parser, "the numbers as JSON, one line per recording")


def _verify(parser: Parser) -> None:
    recording(parser, many=True)
    parser.add_argument(
        "--key", metavar="FILE", help="also require a signature that this public key confirms"
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing about what is whole")
    json_flag(parser, "the findings as JSON, one line per recording")


def _sign(parser: Parser) -> None:
    add = parser.add_argument
    add("path", nargs="?", metavar="PATH", help=f"what to sign: {RECORDING}")
    add("--key", metavar="FILE", help="the private key to sign with")
    add("--new-key", metavar="FILE", help="make a key at FILE, its public half at FILE.pub")
    json_flag(parser, "what was done as JSON")


def _recover(parser: Parser) -> None:
    recording(parser)
    parser.add_argument(
        "--cut", action="store_true", help="end it before the first line that is not an event"
    )
    json_flag(parser, "what was kept and cut as JSON")


def _migrate(parser: Parser) -> None:
    parser.add_argument("old", metavar="OLD", help="the capture directory of an earlier version")
    parser.add_argument("new", metavar="NEW", help="where to write the new one")
    json_flag(parser, "what was done as JSON")


def _redact(parser: Parser) -> None:
    add = parser.add_argument
    add("source", metavar="SRC", help=RECORDING)
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
    json_flag(parser, "what was removed as JSON, without the values")


def _pack(parser: Parser) -> None:
    parser.add_argument("path", metavar="RECORDING", help=RECORDING)
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="the file to write, otherwise RECORDING.reenact"
    )
    json_flag(parser, "what was done as JSON")


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
    json_flag(parser, "what was done as JSON")


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
    root(parser, f"{NEAREST}, or where you are")
    json_flag(parser, "what was done as JSON, one line per file")


def _export(parser: Parser) -> None:
    add = parser.add_argument
    recording(parser)
    add("file", metavar="FILE", help="the file to write, or - for stdout")
    add(
        "--format",
        choices=[name for name in FORMATS if name != "mitmproxy"],
        help="otherwise told by the name: .har, .yaml, .rrbin",
    )
    add("--overwrite", action="store_true", help="replace a file that is there already")
    json_flag(parser, "what was written and what was lost as JSON")


ARGUMENTS: dict[str, Callable[[Parser], None]] = {
    "show": _show,
    "view": _view,
    "diff": _diff,
    "explain": _explain,
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
}
"""By the name of the command."""
