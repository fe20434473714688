"""``reenact policy``: the first files, what is wrong with them, what is in force, and the pins."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reenact.cli.render import count, json_line, rows, safe
from reenact.cli.running import report
from reenact.errors import UsageError
from reenact.policy.files import Finding
from reenact.policy.index import INDEX, check_all, load_index, load_policy, named_worlds
from reenact.policy.inforce import Value, describe
from reenact.policy.pins import Pin, pinned_index, starter
from reenact.policy.places import FOLDER, find_root, world
from reenact.policy.rules import DEFAULT, Pinned
from reenact.store.files import replace_file

__all__ = ["check", "init", "pin", "show"]

_SHORT = len("sha256:") + 8
_IGNORED = b"# What an interrupted write leaves behind.\n*.tmp\n"


def init(args: argparse.Namespace) -> int:
    """The command ``policy init``."""
    folder = (_folder(args.root) if args.root else Path.cwd()) / FOLDER
    files = starter()
    for name in files:
        if os.path.lexists(folder / name):
            raise UsageError(
                f"{folder / name} is there already",
                hint="reenact policy check says whether it is right; to start anew, move it away",
            )
    ignore = {} if os.path.lexists(folder / ".gitignore") else {".gitignore": _IGNORED}
    written = [_create(folder / name, content) for name, content in (ignore | files).items()]
    if args.json:
        print(json_line({"root": str(folder.parent), "written": written}))
    else:
        for path in written:
            print(f"wrote {safe(path)}")
    return 0


def _create(path: Path, content: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(content)
    return str(path)


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise UsageError(f"{text} is not a folder", hint="give the folder that holds .reenact")
    return path


def _root(args: argparse.Namespace) -> Path:
    return _folder(args.root) if args.root else find_root(Path.cwd(), os.environ)


def check(args: argparse.Namespace) -> int:
    """The command ``policy check``. Exit code 2 when anything is wrong; what is odd is only said."""
    root = _root(args)
    findings = check_all(root)
    errors = sum(one.severity == "error" for one in findings)
    if args.json:
        as_json = [asdict(one) for one in findings]
        print(json_line({"root": str(root), "ok": not errors, "findings": as_json}))
    else:
        for finding in findings:
            _tell(finding)
    if errors:
        sys.stdout.flush()
        report(
            UsageError(
                f"{count(errors, 'mistake')} in {root / FOLDER}",
                hint=next(one.hint for one in findings if one.severity == "error")
                or "see the list",
            )
        )
        return UsageError.exit_code
    if not args.json:
        print(f"{safe(str(root / FOLDER))}: ok")
    return 0


def _tell(finding: Finding) -> None:
    print(f"{safe(finding.place)}: {finding.severity}: {safe(finding.message)}")
    if finding.hint:
        print(f"  hint: {safe(finding.hint)}")


def show(args: argparse.Namespace) -> int:
    """The command ``policy show``."""
    root = _root(args)
    pinned = load_policy(root, args.id or DEFAULT.id)
    here = world(os.environ, under_pytest=False, known=named_worlds(load_index(root)))
    values = describe(pinned, defaults=_surroundings(pinned, os.environ))
    if args.json:
        print(json_line({**_facts(pinned, here), "settings": [asdict(one) for one in values]}))
        return 0
    facts = ((name, str(fact)) for name, fact in _facts(pinned, here).items())
    table = [(name, safe(fact)) for name, fact in facts]
    print(*rows(table), "", *rows([("setting", "value", "from"), *map(_row, values)]), sep="\n")
    return 0


def _facts(pinned: Pinned, here: str) -> dict[str, Any]:
    allowed = pinned.worlds is None or here in pinned.worlds
    return {
        "policy": pinned.policy.id,
        "file": pinned.path or "built in",
        "digest": pinned.digest,
        "world": here if allowed else f"{here}, where it may not be used",
    }


def _surroundings(pinned: Pinned, environ: Mapping[str, str]) -> dict[str, str]:
    """The defaults that depend on where we are."""
    in_ci = bool(environ.get("CI", ""))
    strictness = "lenient" if not in_ci and sys.stderr.isatty() else "strict"
    strict = (pinned.policy.strictness or strictness) == "strict"
    return {
        "strictness": strictness,
        "unused": "error" if strict else "warn",
        "redaction": "strict" if in_ci else "default",
    }


def _row(value: Value) -> tuple[str, str, str]:
    return value.name, safe(_spelled(value.value)), value.origin


def _spelled(value: Any) -> str:
    if value is None:
        return "any"
    if isinstance(value, str):
        return value
    return json_line(value)


def pin(args: argparse.Namespace) -> int:
    """The command ``policy pin``."""
    root = _root(args)
    content, pins = pinned_index(root, args.id)
    index = root / FOLDER / INDEX
    if content is not None:
        replace_file(index, content)
    if args.json:
        print(json_line({"index": str(index), "pins": [asdict(one) for one in pins]}))
    else:
        print(*rows([(one.id, safe(one.file), _change(one)) for one in pins]), sep="\n")
    return 0


def _change(one: Pin) -> str:
    if one.before == one.after:
        return "unchanged"
    return f"{one.before[:_SHORT] or 'not pinned'} -> {one.after[:_SHORT]}"
