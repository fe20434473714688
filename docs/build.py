"""Writes the generated pages of ``docs/reference``, and the JSON Schemas of the policy files.

The pages are generated from the code and do not depend on the terminal, the locale or the Python version.
``--check`` writes nothing and exits with 1 if a page is outdated.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from reenact import errors
from reenact.boundaries.registry import CLIENTS
from reenact.cli._commands import ABOUT, TABLE
from reenact.cli._parser import Command, Group, find_command, make_parser
from reenact.engine.divergence.model import divergence_schema
from reenact.format import manifest
from reenact.format.event import Envelope
from reenact.format.event_fields import PAYLOADS
from reenact.hermetic.network_libraries import BUILT_ON, NETWORK_LIBRARIES
from reenact.lenses.registry import PROVIDERS
from reenact.lenses.registry import TABLE as LENSES
from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor
from reenact.policy.redaction.tokens import SHAPES
from reenact.policy.schema import FILES, schemas

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tests" / "frameworks" / "results"
NOTE = "<!-- Made from the code by `make docs`; change it there. -->"

RULES = {
    "name": "the value of a key, header, field, parameter, flag, XML element or variable with a secret name",
    "cookie": "the values in `Cookie` and `Set-Cookie`; names and attributes stay",
    "url.userinfo": "user and password in front of the host of a URL",
    "command": "credentials in the arguments of well-known programs",
    "declared": "values that you declare",
    "env": "the values of environment variables with secret names",
    "email": "e-mail addresses",
    "card": "card numbers with a valid check digit (Luhn)",
    "iban": "account numbers with valid check digits (IBAN)",
    "shape.discord-bot": "Discord bot tokens, three parts with dots between them",
    "shape.facebook-app": "Facebook app tokens, a number and a secret with a bar between them",
    "entropy": "random-looking strings of 24 characters and more, outside protocol ids",
    "header": "every header that is not known to be harmless",
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    args = parser.parse_args(argv)
    stale = {name: text for name, text in build().items() if not is_current(ROOT / name, text)}
    for name, text in stale.items():
        if args.check:
            print(f"{name} is out of date; run: make docs", file=sys.stderr)
        else:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if args.check and stale else 0


def build() -> dict[str, str]:
    """Every generated file: its path and its text."""
    pages: dict[str, Callable[[], Iterable[str]]] = {
        "cli.md": commands_page,
        "clients.md": clients_page,
        "errors.md": errors_page,
        "fields.md": fields_page,
        "frameworks.md": frameworks_page,
        "lenses.md": lenses_page,
        "policies.md": policies_page,
        "redaction.md": redaction_page,
    }
    made = {f"docs/reference/{name}": [NOTE, *page()] for name, page in pages.items()}
    texts = {name: "\n".join(lines) + "\n" for name, lines in made.items()}
    texts["docs/reference/divergence.schema.json"] = (
        json.dumps(divergence_schema(), indent=2) + "\n"
    )
    return texts | {f"src/reenact/policy/schemas/{name}": text for name, text in schemas().items()}


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


# Clients


def clients_page() -> Iterator[str]:
    yield from (
        "# Clients",
        "",
        "What `reenact run` and every session cover by themselves, and what is known of the rest. See",
        "[what keeps a replay offline](../concepts/hermetic.md) for what happens to the rest, and",
        "[Add an HTTP client](../guides/adding-a-client.md) for changing that.",
        "",
        "## Covered",
        "",
    )
    yield from table(
        ("library", "installed when the program imports"),
        ((one.name, f"`{one.module}`") for one in CLIENTS),
    )
    above = (f"`{name}` (over `{below}`)" for name, below in sorted(BUILT_ON.items()))
    yield from (f"And with them {', '.join(above)}.", "")
    for kind, title, about in _KINDS:
        names = sorted(
            {one.name for one in NETWORK_LIBRARIES.values() if one.kind == kind}, key=str.lower
        )
        yield from (f"## {title}", "", about, "", ", ".join(names) + ".", "")


_KINDS = (
    (
        "seen",
        "Not covered, seen by the hook",
        "Importing one of these while recording is a warning; in a replay their first connection is refused.",
    ),
    (
        "unseen",
        "Not covered, and no hook sees them",
        "They connect in C, Rust or Go. Importing one of these while recording is a warning; in a replay it "
        "is refused, unless the run is isolated.",
    ),
)


# Lenses


def lenses_page() -> Iterator[str]:
    yield from (
        "# Lenses",
        "",
        "The model APIs that are recognised in HTTP traffic: a `POST` whose path ends like this and whose",
        "body is a request of that API. See [Model calls](../concepts/model-calls.md), and",
        "[Add a lens](../guides/adding-a-lens.md) for another API.",
        "",
    )
    yield from table(
        ("lens", "API", "the path ends with"),
        (
            (f"`{one.name}`", one.title, ", ".join(f"`{path}`" for path in one.paths))
            for one in LENSES
        ),
    )
    yield from (
        "## Providers",
        "",
        "`provider` is told by the host. On any other host it is `anthropic`, `google`, `bedrock` or `ollama`",
        "for their own APIs, and `openai-compatible` for those of OpenAI.",
        "",
    )
    yield from table(("host", "provider"), ((f"`{host}`", f"`{name}`") for host, name in PROVIDERS))


# Commands


def commands_page() -> Iterator[str]:
    yield from ("# Commands", "", ABOUT, "")
    yield from table(
        ("command", ""), ((f"[`{name}`](#{name})", summary) for name, _, summary in TABLE)
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
            ("1", "diverged"),
            ("2", "misuse"),
            ("3", "damaged or unreadable"),
            ("4", "refused by policy"),
        ),
    )
    parsers = subparsers(make_parser())
    for name, _, _ in TABLE:
        command = find_command(name)
        if command is not None:
            yield from command_section(command, name, parsers[name])


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (found,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return dict(found.choices)


def command_section(
    command: Command | Group, path: str, parser: argparse.ArgumentParser
) -> Iterator[str]:
    """``path`` is the command with those it is under: ``policy init``."""
    yield from (f"##{'#' * path.count(' ')} {path}", "", command.description, "")
    if isinstance(command, Group):
        parsers = subparsers(parser)
        for name, one in command.commands.items():
            yield from command_section(one, f"{path} {name}", parsers[name])
        return
    actions = [one for one in parser._actions if "--help" not in one.option_strings]
    usage = " ".join(["reenact", path, *map(in_usage, actions)])
    yield from ("```text", usage, "```", "")
    yield from table(("", ""), ((f"`{spelled(one)}`", meaning(one)) for one in actions))
    yield from ("```console no-run", f"$ {command.example}", "```", "")


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
    divergence = errors.DivergenceError
    yield from (
        f"`{divergence.__name__}` (code `{divergence.code}`, exit code {divergence.exit_code}) is",
        "not below `ReenactError` and not an `Exception`: a program that swallows errors does not",
        "swallow it. It carries a [divergence](divergence.md).",
        "",
    )
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


# Frameworks


def frameworks_page() -> Iterator[str]:
    yield from (
        "# Frameworks",
        "",
        "Programs that know nothing of Reenact, recorded with `reenact run --capture` against a model server",
        "and replayed with `--replay`: the same bytes on standard output, the same exit code, no request left",
        "over, and none at the server. With one prompt changed, the replay ends with exit code 1. Made from",
        "what the tests saw (`tests/frameworks`), with these versions.",
        "",
    )
    results = [json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    results.sort(key=lambda seen: (seen["package"].lower(), seen["version"], seen["tries"]))
    yield from table(
        ("package", "version", "environment", "tried", "requests"),
        (
            (
                f"`{seen['package']}`",
                pinned(seen["environment"], seen["package"], seen["version"]),
                seen["environment"],
                seen["tries"],
                str(seen["calls"]),
            )
            for seen in results
        ),
    )
    yield from (
        "Tried besides, with openai 2 and 3: five identical prompts at once, which get each its own answer; a",
        "prompt with the time, a uuid and what `date` says; streams that are broken off, cancelled, or cut by the",
        "server; refusals (429, 503) that the client answers by asking again.",
        "",
        "What these libraries draw of clock and chance (ids, time stamps) is served again in a replay, in its",
        "order per lane, and does not count in the content hash. `litellm` fetches a price list over the network",
        "when it is imported; set `LITELLM_LOCAL_MODEL_COST_MAP=True` to leave that out of a recording.",
    )


def pinned(environment: str, package: str, version: str) -> str:
    """``version``, which must be the one that the tests would use today."""
    pins = (ROOT / f"tests/frameworks/requirements/{environment}.txt").read_text("utf-8")
    if f"{package}=={version}\n" not in pins:
        raise SystemExit(
            f"tests/frameworks/results: {package} {version} is not what {environment}.txt says\n"
            "hint: make frames"
        )
    return version


# Policies


def policies_page() -> Iterator[str]:
    yield from ("# Policy files", "", "Every field of the files in `.reenact/`. Unknown fields are")
    yield "errors. [Policies](../guides/policies.md) shows a whole set; the JSON Schemas are"
    yield from ("installed with the package, in `reenact/policy/schemas`.", "")
    for name, (_, version) in FILES.items():
        whole = json.loads(schemas()[f"{name}.schema.json"])
        yield from (f"## The {name}: `{version}`", "", whole["description"], "")
        yield from policy_table(whole)
        for title, part in whole.get("$defs", {}).items():
            yield from (f"### `{title}`", "", part["description"], "")
            yield from policy_table(part)


def policy_table(part: dict[str, Any]) -> Iterator[str]:
    yield from table(
        ("field", "value", "default", ""),
        (
            (f"`{name}`", value_name(field), default_name(name, field, part), field["description"])
            for name, field in part["properties"].items()
        ),
    )


def value_name(field: dict[str, Any]) -> str:
    """Return the allowed values of a field, from its JSON Schema."""
    if "$ref" in field:
        return f"`{field['$ref'].rpartition('/')[2]}`"
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    if "anyOf" in field:
        return " or ".join(value_name(one) for one in field["anyOf"] if one != {"type": "null"})
    if "items" in field:
        return f"list of {value_name(field['items'])}"
    if "additionalProperties" in field:
        return f"object of {value_name(field['additionalProperties'])}"
    return {"boolean": "`true`, `false`", "integer": "number", "string": "text"}[field["type"]]


def default_name(name: str, field: dict[str, Any], part: dict[str, Any]) -> str:
    if name in part.get("required", ()):
        return "required"
    default = field.get("default")
    return "" if default in (None, "", [], {}) else f"`{json.dumps(default)}`"


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
    yield "together, what is kept although it looks secret, and"
    yield "[what is not detected](../concepts/secrets.md#what-is-not-detected)."


def token(needs: tuple[str, ...]) -> str:
    return "tokens and texts known by " + ", ".join(f"`{text}`" for text in needs)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
