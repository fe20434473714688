"""Writes the generated pages of ``docs/reference``: commands, errors, fields, redaction rules.

Everything comes from the code, and nothing depends on the terminal, the locale or the version of
Python. ``--check`` writes nothing and exits with 1 when a page is not what it should be.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from reenact import errors
from reenact.cli.commands import ABOUT, COMMANDS
from reenact.cli.parser import make_parser
from reenact.format import manifest
from reenact.format.event import Envelope
from reenact.format.payloads import PAYLOADS
from reenact.policy.redaction import PLACEHOLDER, Redactor
from reenact.policy.shapes import SHAPES

REFERENCE = Path(__file__).resolve().parent / "reference"
NOTE = "<!-- Made from the code by `make docs`; change it there. -->"

RULES = {
    "name": "the value of a key, header, field, parameter, flag or variable with a secret name",
    "cookie": "the values in `Cookie` and `Set-Cookie`; names and attributes stay",
    "url.userinfo": "user and password in front of the host of a URL",
    "declared": "values that you declare",
    "env": "the values of environment variables with secret names",
    "email": "e-mail addresses",
    "entropy": "random-looking strings of 24 characters and more, outside protocol ids",
    "header": "every header that is not known to be harmless",
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    args = parser.parse_args(argv)
    stale = [name for name, text in build().items() if not is_current(REFERENCE / name, text)]
    for name in stale:
        if args.check:
            print(f"docs/reference/{name} is out of date; run: make docs", file=sys.stderr)
        else:
            REFERENCE.mkdir(parents=True, exist_ok=True)
            (REFERENCE / name).write_text(build()[name], encoding="utf-8")
            print(f"wrote docs/reference/{name}")
    return 1 if args.check and stale else 0


def build() -> dict[str, str]:
    """Every generated page: its name and its text."""
    pages: dict[str, Callable[[], Iterable[str]]] = {
        "cli.md": commands_page,
        "errors.md": errors_page,
        "fields.md": fields_page,
        "redaction.md": redaction_page,
    }
    return {name: "\n".join([NOTE, *page()]) + "\n" for name, page in pages.items()}


def is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """A table, and the empty line behind it."""
    for row in (headings, ("---",) * len(headings), *rows):
        yield (
            "|" + "|".join(f" {cell} " if cell != "---" else cell for cell in map(cell, row)) + "|"
        )
    yield ""


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# Commands


def commands_page() -> Iterator[str]:
    yield from ("# Commands", "", ABOUT, "")
    yield from table(
        ("command", ""), ((f"[`{one.name}`](#{one.name})", one.summary) for one in COMMANDS)
    )
    yield from (
        "Data goes to stdout, everything else to stderr. With `--json` the output is JSON, one value",
        'per line; an error is then also printed to stdout, as `{"error": …}`. An error ends with',
        "`hint:` and what to do next. `reenact COMMAND --help` says what stands here.",
        "",
    )
    yield from table(
        ("exit code", "means"),
        (
            ("0", "fine"),
            ("2", "misuse"),
            ("3", "damaged or unreadable"),
        ),
    )
    parsers = subparsers(make_parser())
    for command in COMMANDS:
        yield from command_section(command.name, parsers[command.name], command.description)
        yield from ("```console no-run", f"$ {command.example}", "```", "")


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (found,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return dict(found.choices)


def command_section(name: str, parser: argparse.ArgumentParser, description: str) -> Iterator[str]:
    actions = [one for one in parser._actions if "--help" not in one.option_strings]
    usage = " ".join(["reenact", name, *map(in_usage, actions)])
    yield from (f"## {name}", "", description, "", "```text", usage, "```", "")
    yield from table(("", ""), ((f"`{spelled(one)}`", meaning(one)) for one in actions))


def in_usage(action: argparse.Action) -> str:
    text = spelled(action)
    if action.option_strings:
        return f"[{text}]..." if isinstance(action, argparse._AppendAction) else f"[{text}]"
    return {"?": f"[{text}]", "+": f"{text}..."}.get(str(action.nargs), text)


def spelled(action: argparse.Action) -> str:
    value = str(action.metavar or "|".join(action.choices or ()))
    if not action.option_strings:
        return value
    return " ".join(filter(None, (action.option_strings[-1], value if action.nargs != 0 else "")))


def meaning(action: argparse.Action) -> str:
    default = f" (default: `{action.default}`)" if isinstance(action.default, str) else ""
    return f"{action.help}{default}"


# Errors


def errors_page() -> Iterator[str]:
    yield from ("# Errors", "", "Every error that Reenact raises on purpose. `code` never changes;")
    yield from ("`exit code` is what a command ends with. `error.hint` says what to do next.", "")
    yield from table(("error", "code", "exit code", "means"), map(error_row, error_classes()))
    yield from ("A message never contains what was recorded: only paths, names, numbers and",)
    yield "digests."


def error_classes() -> Iterator[type[errors.ReenactError]]:
    """In the order of the tree."""
    waiting: list[type[errors.ReenactError]] = [errors.ReenactError]
    while waiting:
        found = waiting.pop(0)
        yield found
        waiting[:0] = [one for one in found.__subclasses__() if one.__module__ == errors.__name__]


def error_row(kind: type[errors.ReenactError]) -> tuple[str, str, str, str]:
    depth = len(kind.__mro__) - len(errors.ReenactError.__mro__)
    name = f"{'&nbsp;&nbsp;' * depth}`{kind.__name__}`"
    return name, f"`{kind.code}`", str(kind.exit_code), error_meaning(kind)


def error_meaning(kind: type[errors.ReenactError]) -> str:
    if kind is errors.ReenactError:
        return "the base of all"
    found = re.search(rf"\b{kind.__name__}  +(.*?)(?:  +exit \d)?$", errors.__doc__ or "", re.M)
    if found is None:
        raise SystemExit(f"the docstring of reenact.errors says nothing about {kind.__name__}")
    return found[1]


# Fields


def fields_page() -> Iterator[str]:
    yield from ("# Fields", "", "The names in the files, with what may stand there. Unknown fields")
    yield from ("are kept. [File format 1.0](format.md) says what they mean.", "")
    yield from section("The envelope of an event", Envelope)
    for name, kind in PAYLOADS.items():
        yield from section(f"The data of `{name}`", kind)
    parts = (
        manifest.Manifest,
        manifest.Format,
        manifest.Model,
        manifest.RedactionInfo,
        manifest.PolicyRef,
        manifest.Origin,
        manifest.Integrity,
        manifest.Checkpoints,
        manifest.BlobTotals,
    )
    for part in parts:
        whole = part is manifest.Manifest
        yield from section("The manifest" if whole else f"`{part.__name__}` in the manifest", part)
    yield from ("## Behaviour flags", "")
    yield from table(("number", "name"), ((str(int(one)), one.name) for one in manifest.Flag))


def section(title: str, kind: type[msgspec.Struct]) -> Iterator[str]:
    fields = [one for one in msgspec.structs.fields(kind) if one.name != "extra"]
    yield from (f"## {title}", "")
    yield from table(
        ("field", "type", "required"),
        ((f"`{one.encode_name}`", type_name(one.type), "yes" * one.required) for one in fields),
    )


def type_name(kind: Any) -> str:
    """``str | None``, ``Manifest``, without modules."""
    text = kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)
    if kind is msgspec.Raw:
        return "object"
    return f"`{re.sub(r'[A-Za-z_]+[.](?=[A-Za-z_])', '', text)}`"


# Redaction


def redaction_page() -> Iterator[str]:
    default, strict = Redactor("default").describe(), Redactor("strict").describe()
    yield from ("# Redaction rules", "", "What each profile takes out. The name of a rule is what")
    yield from (f"`reenact redact` counts. The replacement is `{PLACEHOLDER}`, or a pseudonym.", "")
    shapes = {shape.id: shape for shape in SHAPES}
    yield from table(
        ("rule", "`default`", "`strict`", "takes out"),
        (
            (
                f"`{rule}`",
                "yes" * (rule in default),
                "yes",
                RULES.get(rule) or token(shapes[rule].needs),
            )
            for rule in strict
        ),
    )
    yield "The profile `none` has no rules. [Secrets](../concepts/secrets.md) says how they work"
    yield "together, and what is kept although it looks secret."


def token(needs: tuple[str, ...]) -> str:
    return "tokens and texts known by " + ", ".join(f"`{text}`" for text in needs)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
