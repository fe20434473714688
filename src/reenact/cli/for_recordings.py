"""Arguments of commands about recordings."""

from __future__ import annotations

from collections.abc import Callable

from reenact.cli.parsing import NEAREST, RECORDING, Parser, json_flag, recording, root

__all__ = ["ARGUMENTS", "FORMATS"]


FORMATS = ("vcr", "vcr-json", "har", "rrbin", "boruna", "mitmproxy")


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
