"""The ``policy`` and ``capabilities`` commands: write, import, check, show and pin policies."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import structs

from reenact._version import __version__
from reenact.cli._output import count, escape_controls, json_line, print_result, report, rows
from reenact.cli._parser import NEAREST, Command, Group, argument, json_flag, root, takes
from reenact.errors import UsageError
from reenact.policy.access import KNOWN, PROTOCOL_VERSION
from reenact.policy.files import Finding
from reenact.policy.index import (
    INDEX,
    Pin,
    check_all,
    load_index,
    load_policy,
    named_worlds,
    pinned_index,
    starter,
)
from reenact.policy.model import DEFAULT, Pinned
from reenact.policy.paths import FOLDER, find_root, world
from reenact.policy.x07_files import load_arch
from reenact.policy.x07_importer import Import, import_arch
from reenact.store.files import replace_file

__all__ = ["COMMANDS", "EffectiveSetting", "Origin", "describe"]

_SHORT = len("sha256:") + 8
_FATE = len("changed")
_NAMED = ("sanitizer", "sanitizer.saltEnv")
"""Settings whose empty value is printed as none instead of any."""
_IGNORED = b"# What an interrupted write leaves behind.\n*.tmp\n"


def init(args: argparse.Namespace) -> int:
    folder = (_folder(args.root) if args.root else Path.cwd()) / FOLDER
    files = starter()
    for name in files:
        if os.path.lexists(folder / name):
            raise UsageError(
                f"{folder / name} is there already",
                hint="check it: reenact policy check; to replace it, move it away",
            )
    written = _write(folder, files)
    found = {"root": str(folder.parent), "written": written}
    return print_result(args, found, *(f"wrote {path}" for path in written))


def _write(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Write all files or none, in this order. Only an index is replaced.

    A partial set is worse than none, because policies without an index are refused.
    """
    ignore = {} if os.path.lexists(folder / ".gitignore") else {".gitignore": _IGNORED}
    paths = {folder / name: content for name, content in (ignore | dict(files)).items()}
    with ExitStack() as undo:
        for path, content in paths.items():
            if path.name == INDEX and os.path.lexists(path):
                replace_file(path, content, private=False)
            else:
                _create(path, content, undo)
        undo.pop_all()
    return [str(path) for path in paths]


def _create(path: Path, content: bytes, undo: ExitStack) -> None:
    for parent in reversed([one for one in path.parents if not one.exists()]):
        parent.mkdir()
        undo.callback(_remove_empty, parent)
    with path.open("xb") as file:
        undo.callback(path.unlink)
        file.write(content)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # the folder is not empty any more
        folder.rmdir()


def import_x07(args: argparse.Namespace) -> int:
    root = _root(args)
    folder = _folder(args.folder, "give the folder that holds index.x07rr.json, usually arch/rr")
    arch, findings = load_arch(folder)
    facts = {"from": str(folder), "root": str(root), "ok": arch is not None}
    if arch is None:
        _print_findings(findings, facts, as_json=args.json)
        return _report_errors(findings, folder)
    found = import_arch(arch, root)
    written = _write(root / FOLDER, found.files | {INDEX: found.index})
    if args.json:
        notes = [asdict(one) for one in found.notes]
        more = {"policies": found.policies, "written": written, "kept": found.kept, "notes": notes}
        print(json_line(facts | more))
    else:
        _print_import(found, root / FOLDER, written)
    return 0


def _print_import(found: Import, folder: Path, written: list[str]) -> None:
    for path in written:
        print(f"wrote {escape_controls(path)}")
    for name in found.kept:
        print(f"kept {escape_controls(str(folder / name))}, which has the same content")
    for file, notes in groupby(found.notes, key=lambda note: note.file):
        print(f"from {escape_controls(file)}:")
        for note in notes:
            print(
                f"  {note.fate:<{_FATE}} {escape_controls(note.path)}: {escape_controls(note.message)}"
            )
            if note.hint:
                print(f"  {'':<{_FATE}} hint: {escape_controls(note.hint)}")
    fates = [note.fate for note in found.notes]
    changed, lost = (count(fates.count(fate), "setting") for fate in ("changed", "lost"))
    print(f"imported {', '.join(found.policies)}; {changed} changed, {lost} lost")


def _folder(text: str, hint: str = "give the folder that holds .reenact") -> Path:
    path = Path(text)
    if not path.is_dir():
        raise UsageError(f"{text} is not a folder", hint=hint)
    return path


def _root(args: argparse.Namespace) -> Path:
    return _folder(args.root) if args.root else find_root(Path.cwd(), os.environ)


def check(args: argparse.Namespace) -> int:
    root = _root(args)
    findings = check_all(root)
    ok = all(one.severity != "error" for one in findings)
    _print_findings(findings, {"root": str(root), "ok": ok}, as_json=args.json)
    if not ok:
        return _report_errors(findings, root / FOLDER)
    if not args.json:
        print(f"{escape_controls(str(root / FOLDER))}: ok")
    return 0


def _print_findings(findings: list[Finding], facts: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json_line({**facts, "findings": [structs.asdict(one) for one in findings]}))
        return
    for finding in findings:
        print(
            f"{escape_controls(finding.place)}: {finding.severity}: {escape_controls(finding.message)}"
        )
        if finding.hint:
            print(f"  hint: {escape_controls(finding.hint)}")


def _report_errors(findings: list[Finding], folder: Path) -> int:
    """Report the number of errors after the list of findings."""
    hints = [one.hint for one in findings if one.severity == "error"]
    sys.stdout.flush()
    hint = hints[0] if len(hints) == 1 else "fix the listed errors, and try again"
    report(UsageError(f"{count(len(hints), 'mistake')} in {folder}", hint=hint or "see the list"))
    return UsageError.exit_code


def show(args: argparse.Namespace) -> int:
    root = _root(args)
    pinned = load_policy(root, args.id or DEFAULT.id)
    here = world(os.environ, under_pytest=False, known=named_worlds(load_index(root)))
    values = describe(pinned, defaults=_environment_defaults(pinned, os.environ))
    if args.json:
        print(json_line({**_facts(pinned, here), "settings": [asdict(one) for one in values]}))
        return 0
    facts = ((name, str(fact)) for name, fact in _facts(pinned, here).items())
    table = [(name, escape_controls(fact)) for name, fact in facts]
    print(*rows(table), "", *rows([("setting", "value", "from"), *map(_row, values)]), sep="\n")
    return 0


def _facts(pinned: Pinned, here: str) -> dict[str, Any]:
    allowed = pinned.worlds is None or here in pinned.worlds
    return {
        "policy": pinned.policy.id,
        "file": pinned.path or "built in",
        "digest": pinned.digest,
        "world": here if allowed else f"{here}, where the policy is not allowed",
    }


def _environment_defaults(pinned: Pinned, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults that depend on the environment."""
    in_ci = bool(environ.get("CI", ""))
    strictness = "lenient" if not in_ci and sys.stderr.isatty() else "strict"
    strict = (pinned.policy.strictness or strictness) == "strict"
    return {
        "strictness": strictness,
        "unused": "error" if strict else "warn",
        "redaction": "strict" if in_ci else "default",
    }


def _row(value: EffectiveSetting) -> tuple[str, str, str]:
    absent = "none" if value.name in _NAMED else "any"
    return (
        value.name,
        absent if value.value is None else escape_controls(_text(value.value)),
        value.origin,
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json_line(value)


def pin(args: argparse.Namespace) -> int:
    root = _root(args)
    content, pins = pinned_index(root, args.id)
    index = root / FOLDER / INDEX
    if content is not None:
        replace_file(index, content, private=False)
    found = {"index": str(index), "pins": [asdict(one) for one in pins]}
    return print_result(
        args, found, *rows([(one.id, escape_controls(one.file), _change(one)) for one in pins])
    )


def _change(one: Pin) -> str:
    if one.before == one.after:
        return "unchanged"
    return f"{one.before[:_SHORT] or 'not pinned'} -> {one.after[:_SHORT]}"


Origin = Literal["flag", "argument", "policy", "sanitizer", "index", "default"]

_NOT_SETTINGS = ("schemaVersion", "id")
_LISTS = ("modes", "worlds", "kinds", "operations")
_UNSAID: Mapping[str, Any] = {"mode": "replay", "capabilities": "built-in"}


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """One setting. ``name`` is dotted, as in the file; ``value`` is JSON, None meaning no limit."""

    name: str
    value: Any
    origin: Origin


def describe(
    pinned: Pinned,
    *,
    flags: Mapping[str, Any] | None = None,
    arguments: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> list[EffectiveSetting]:
    """Return every setting: from a flag, otherwise an argument, the policy file, the default.

    The mappings have dotted names as keys, and None for unset values. ``defaults`` are values that
    depend on the environment, such as strictness.
    """
    said: tuple[tuple[Origin, Mapping[str, Any]], ...] = (
        ("flag", flags or {}),
        ("argument", arguments or {}),
        ("policy", dict(_stated(pinned))),
        ("sanitizer", _sanitized(pinned)),
        ("default", {**_UNSAID, **(defaults or {})}),
    )
    settings = [_first(name, fallback, said) for name, fallback in _settings(pinned)]
    lists = ((name, getattr(pinned, name)) for name in _LISTS)
    return [*settings, *_secrets(pinned), *(_listed(name, value) for name, value in lists)]


def _first(
    name: str, fallback: Any, said: tuple[tuple[Origin, Mapping[str, Any]], ...]
) -> EffectiveSetting:
    for origin, values in said:
        if values.get(name) is not None:
            return EffectiveSetting(name, values[name], origin)
    return EffectiveSetting(name, fallback, "default")


def _listed(name: str, value: tuple[str, ...] | None) -> EffectiveSetting:
    return (
        EffectiveSetting(name, None, "default")
        if value is None
        else EffectiveSetting(name, list(value), "index")
    )


def _settings(pinned: Pinned) -> Iterator[tuple[str, Any]]:
    """Names and values of the policy, the parts of an object one by one."""
    for name, value in _leaves(pinned.policy, ""):
        if name not in _NOT_SETTINGS:
            yield name, value


def _leaves(struct: msgspec.Struct, before: str) -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        name = f"{before}{field.encode_name}"
        if isinstance(value, msgspec.Struct):
            yield from _leaves(value, f"{name}.")
        else:
            plain = msgspec.to_builtins(value)
            yield name, list(plain) if isinstance(plain, tuple) else plain


def _stated(pinned: Pinned) -> Iterator[tuple[str, Any]]:
    """Return the settings of the policy file; for a policy from code, its differences from the
    default.
    """
    unchanged = dict(_leaves(type(pinned.policy)(id=pinned.policy.id), ""))
    for name, value in _leaves(pinned.policy, ""):
        if name in pinned.stated or value != unchanged[name]:
            yield name, value


def _secrets(pinned: Pinned) -> Iterator[EffectiveSetting]:
    """Return the settings of the sanitizer except its profile."""
    if pinned.sanitizer is not None:
        for name, value in _leaves(pinned.sanitizer, ""):
            if name not in (*_NOT_SETTINGS, "profile"):
                yield EffectiveSetting(
                    f"sanitizer.{name}", value, "sanitizer" if value else "default"
                )


def _sanitized(pinned: Pinned) -> dict[str, Any]:
    return {} if pinned.sanitizer is None else {"redaction": pinned.sanitizer.profile}


def capabilities(args: argparse.Namespace) -> int:
    known, whole = KNOWN.items(), KNOWN.capability_set_hash()
    report = {
        "protocolVersion": PROTOCOL_VERSION,
        "name": "reenact",
        "version": __version__,
        "capabilities": [{"name": name, "version": version} for name, version in known],
        "capabilitySetHash": whole,
    }
    table = rows([("capability", "version"), *known])
    return print_result(args, report, *table, f"hash of the set: {whole}")


COMMANDS = {
    "policy": Group(
        description="The policies of a project lie in its folder .reenact: what its programs may do, how calls "
        "are compared, what is secret. The index pins their contents.",
        example="reenact policy check",
        commands={
            "init": Command(
                summary="write a first, working set of files",
                description="Writes an index, a policy and a sanitizer into the folder .reenact. Existing files "
                "are not changed, and are an error.",
                example="reenact policy init",
                arguments=takes(root("where you are"), json_flag("what was written as JSON")),
                run=init,
            ),
            "import": Command(
                summary="take over the policies of an X07 project",
                description="Converts the policies and sanitizers of an X07 folder arch/rr, adds them to the "
                "existing ones with pins, and reports the result for each setting. All or nothing: an "
                "existing id or file is an error. Salts are never copied.",
                example="reenact policy import arch/rr",
                arguments=takes(
                    argument("folder DIR", "the folder arch/rr of an X07 project"),
                    root(f"{NEAREST}, or where you are"),
                    json_flag("the report as JSON"),
                ),
                run=import_x07,
            ),
            "check": Command(
                summary="find everything that is wrong in the files",
                description="Reads every file and reports all errors: unknown fields, invalid values, "
                "contradictions, and contents that differ from the pins.",
                example="reenact policy check --json",
                arguments=takes(root(NEAREST), json_flag("the findings as JSON")),
                run=check,
            ),
            "show": Command(
                summary="say what is in force, and where each value comes from",
                description="Shows every setting of a policy as it holds here and now: in the policy's file, its "
                "sanitizer, the index, or by default.",
                example="reenact policy show default",
                arguments=takes(
                    argument("id [ID]", "which policy, otherwise the default"),
                    root(NEAREST),
                    json_flag("the settings as JSON"),
                ),
                run=show,
            ),
            "pin": Command(
                summary="accept the files as they are now",
                description="Writes the current digests of the files into the index, of one policy or of all, and "
                "lists the changed ones. Use it after an intended edit. A new policy gets an entry if "
                "its file is policies/ID.policy.json.",
                example="reenact policy pin default",
                arguments=takes(
                    argument("id [ID]", "which policy, otherwise all"),
                    root(NEAREST),
                    json_flag("the pins as JSON"),
                ),
                run=pin,
            ),
        },
    ),
    "capabilities": Command(
        description="Lists the capabilities that policies allow or deny, the version of each one's contract, and "
        "the hash of the whole set that recordings carry.",
        example="reenact capabilities --json",
        arguments=json_flag("the report as JSON"),
        run=capabilities,
    ),
}
