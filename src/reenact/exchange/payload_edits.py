"""Patches (RFC 6902) and settings such as ``body.amount=5``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from reenact.diff.values import OPS, Difference, differences
from reenact.errors import UsageError
from reenact.exchange.model import Change, Payload
from reenact.exchange.payload import SECTIONS, from_document, to_document
from reenact.format.canonical import canonical
from reenact.format.json_path import Tokens, format_pointer, parse_pointer

__all__ = [
    "MAX_OPS",
    "MOST_CHANGES",
    "Op",
    "apply_patch",
    "diff_documents",
    "edit_payload",
    "parse_index",
    "parse_settings",
    "read_patch",
    "resolve_pointer",
    "to_patch",
]

_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")


def parse_index(token: str, length: int) -> int:
    """Return the index that ``token`` names in a list of ``length``. Raises :class:`LookupError`
    with the reason."""
    if not _INDEX.fullmatch(token):
        raise LookupError(f"{token[:40]!r} is not a list index")
    index = int(token)
    if index >= length:
        raise LookupError(f"index {index} is out of range: the list has {length} items")
    return index


def resolve_pointer(document: Any, tokens: Tokens) -> Any:
    """Return the value at a pointer. Raises :class:`LookupError` with the reason."""
    value = document
    for token in tokens:
        if isinstance(value, dict):
            if token not in value:
                raise LookupError(f"{token[:80]!r} does not exist")
            value = value[token]
        elif isinstance(value, list):
            value = value[parse_index(token, len(value))]
        else:
            raise LookupError(f"{token[:80]!r} is looked for in what is neither object nor list")
    return value


MAX_OPS: Final = 1_000
_MOST_COPIED: Final = 1_000_000
"""Maximum number of values that the copies of one patch create. Each copy could double the
document."""

Verb = Literal["add", "remove", "replace", "move", "copy", "test"]
_NEEDS: Final[dict[str, str]] = {
    "add": "value",
    "replace": "value",
    "test": "value",
    "move": "from",
    "copy": "from",
}


class Op(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation. ``path`` and ``from_`` are JSON pointers."""

    op: Verb
    path: str
    value: Any = msgspec.UNSET
    from_: str | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="from")


def read_patch(document: Any) -> tuple[Op, ...]:
    """Return the operations of a decoded patch. Raises :class:`UsageError` with the number of the
    invalid operation, from 0."""
    if not isinstance(document, list):
        raise UsageError("a patch is a list of operations", hint="see RFC 6902")
    if len(document) > MAX_OPS:
        raise UsageError(f"a patch has {MAX_OPS} operations at most, this one has {len(document)}")
    return tuple(_read(number, one) for number, one in enumerate(document))


def _read(number: int, document: Any) -> Op:
    try:
        op = msgspec.convert(document, Op)
    except msgspec.ValidationError as error:
        raise UsageError(f"operation {number}: {error}") from None
    needed = _NEEDS.get(op.op)
    if needed is not None and needed not in document:
        raise UsageError(f"operation {number} ({op.op} {op.path[:80]}): it has no {needed!r}")
    return op


def to_patch(ops: Iterable[Op]) -> list[dict[str, Any]]:
    """Return operations as JSON values. Inverse of :func:`read_patch`."""
    patch: list[dict[str, Any]] = msgspec.to_builtins(list(ops))
    return patch


def edit_payload(payload: Payload, ops: Sequence[Op]) -> Payload:
    """Return ``payload`` with ``ops`` applied to its document. Header names are case-insensitive.
    Raises :class:`UsageError`."""
    return from_document(apply_patch(to_document(payload), [_small(op) for op in ops]), payload)


def _small(op: Op) -> Op:
    path, source = _small_name(op.path), op.from_
    if isinstance(source, str):
        source = _small_name(source)
    return msgspec.structs.replace(op, path=path, from_=source)


def _small_name(path: str) -> str:
    head, slash, rest = path.removeprefix("/headers/").partition("/")
    return f"/headers/{head.lower()}{slash}{rest}" if path.startswith("/headers/") else path


def apply_patch(document: Any, ops: Sequence[Op]) -> Any:
    """Return a copy of ``document`` with all of ``ops`` applied in order.

    Raises :class:`UsageError` with the number, from 0, and the path of the failed operation, and
    the reason.
    """
    if len(ops) > MAX_OPS:
        raise UsageError(f"a patch has {MAX_OPS} operations at most, this one has {len(ops)}")
    work = _Work(document)
    for number, op in enumerate(ops):
        try:
            _DO[op.op](work, op)
        except (LookupError, UsageError) as error:
            reason = error.args[0]
            raise UsageError(f"operation {number} ({op.op} {op.path[:80]}): {reason}") from None
    return work.document


class _Work:
    """Document while a patch is applied."""

    def __init__(self, document: Any) -> None:
        self._room = _MOST_COPIED
        self.document = self.copied(document, counts=False)

    def copied(self, value: Any, *, counts: bool = True) -> Any:
        if counts:
            self._room -= 1
            if self._room < 0:
                raise LookupError("the copies of this patch are too many")
        if isinstance(value, dict):
            return {name: self.copied(item, counts=counts) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.copied(item, counts=counts) for item in value]
        return value

    def add(self, tokens: Tokens, value: Any) -> None:
        if not tokens:
            self.document = value
            return
        owner, name = resolve_pointer(self.document, tokens[:-1]), tokens[-1]
        if isinstance(owner, dict):
            owner[name] = value
        elif isinstance(owner, list):
            owner.insert(len(owner) if name == "-" else parse_index(name, len(owner) + 1), value)
        else:
            raise LookupError("the value there is neither an object nor a list")

    def take(self, tokens: Tokens) -> Any:
        if not tokens:
            raise LookupError("the complete document cannot be removed")
        found = resolve_pointer(self.document, tokens)
        owner, name = resolve_pointer(self.document, tokens[:-1]), tokens[-1]
        del owner[name if isinstance(owner, dict) else int(name)]
        return found


def _add(work: _Work, op: Op) -> None:
    work.add(parse_pointer(op.path), work.copied(op.value))


def _remove(work: _Work, op: Op) -> None:
    work.take(parse_pointer(op.path))


def _replace(work: _Work, op: Op) -> None:
    tokens, value = parse_pointer(op.path), work.copied(op.value)
    resolve_pointer(work.document, tokens)
    if not tokens:
        work.document = value
        return
    owner, name = resolve_pointer(work.document, tokens[:-1]), tokens[-1]
    owner[name if isinstance(owner, dict) else int(name)] = value


def _move(work: _Work, op: Op) -> None:
    source, target = _from(op), parse_pointer(op.path)
    if len(target) > len(source) and target[: len(source)] == source:
        raise LookupError("nothing can be moved into itself")
    resolve_pointer(work.document, source)
    if source != target:
        work.add(target, work.take(source))


def _copy(work: _Work, op: Op) -> None:
    work.add(parse_pointer(op.path), work.copied(resolve_pointer(work.document, _from(op))))


def _test(work: _Work, op: Op) -> None:
    found = resolve_pointer(work.document, parse_pointer(op.path))
    if canonical(found) != canonical(op.value):
        raise LookupError("it has another value")


def _from(op: Op) -> Tokens:
    if not isinstance(op.from_, str):
        raise LookupError("it has no 'from'")
    return parse_pointer(op.from_)


_DO: Final[dict[str, Callable[[_Work, Op], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


# Settings

_PATH_END = re.compile(r"""(?P<path>(?:[^='"]|'[^']*'|"[^"]*")+)=""")
_STEP = re.compile(
    r"""\.?(?P<name>[^.\[\]'"]+) | \[(?P<index>[0-9]+|-)\] | \[(?P<q>['"])(?P<quoted>.*?)(?P=q)\]""",
    re.VERBOSE,
)
_IN_LIST = re.compile(r"(?:[./][0-9]+|\[[0-9]+\])\Z")


def parse_settings(settings: Iterable[str]) -> tuple[Op, ...]:
    """Return operations for ``body.amount=5``, ``body.items[0].sku=A-1``, ``body.items[-]=…``
    (append), ``headers.x-user=ann``, ``properties.tenant=7``, ``body=…``, and ``/json/pointer=…``.

    A value is JSON if it can be parsed, otherwise a string. A header value is a string or a list of
    strings. Property names can contain dots. Raises :class:`UsageError`.
    """
    return tuple(map(_set, settings))


def _set(setting: str) -> Op:
    path, rest = _split(setting)
    tokens = parse_pointer(path) if path.startswith("/") else _steps(path)
    if not tokens or tokens[0] not in SECTIONS:
        raise UsageError(
            f"{setting[:80]!r} sets nothing of a payload",
            hint="a path begins with body, headers or properties: body.amount=5",
        )
    in_header = tokens[0] == "headers" and len(tokens) > 1
    return Op(
        op="replace" if _IN_LIST.search(path) else "add",  # to add to a list is to insert
        path=_small_name(format_pointer(tokens)),
        value=_header_value(rest) if in_header else _value(rest),
    )


def _split(setting: str) -> tuple[str, str]:
    """Return the path and the value. Quoted parts can contain an equals sign."""
    place = _PATH_END.match(setting)
    if place is None:
        raise UsageError(f"{setting[:80]!r} sets nothing", hint="PATH=VALUE: body.amount=5")
    return place["path"], setting[place.end() :]


def _steps(path: str) -> Tokens:
    tokens: list[str] = []
    place = 0
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None:
            raise UsageError(
                f"cannot read the path {path[:80]!r} at character {place}",
                hint="body.items[0].sku=5, body['a.b']=5",
            )
        in_name = found["name"] is not None and path[place - 1 : place] not in ("", "]")
        if in_name and len(tokens) > 1 and tokens[0] == "properties":
            tokens[-1] += f".{found['name']}"
        else:
            tokens.append(found["name"] or found["index"] or found["quoted"])
        place = found.end()
    return tuple(tokens)


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def _header_value(text: str) -> str | list[str]:
    value = _value(text)
    if isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(x, str) for x in value)
    ):
        return value
    return text


MOST_CHANGES: Final = 200


def diff_documents(before: Any, after: Any, *, limit: int = MOST_CHANGES) -> tuple[Change, ...]:
    """Return the changes from ``before`` to ``after``, in document order. If there are more than
    ``limit``, return one change for each changed top-level value.

    Both consist of values that canonical JSON can hold, and bytes. Raises :class:`ValueRefused`
    otherwise.
    """
    found = differences(before, after, limit=limit + 1)
    if len(found) <= limit:
        return tuple(map(_change, found))
    if not isinstance(before, dict) or not isinstance(after, dict):
        return (Change(op="replace", path="", before=before, after=after),)
    names = [name for name in after if before.get(name) != after[name]]
    return tuple(
        Change(
            op="replace",
            path=format_pointer([name]),
            before=before.get(name),
            after=after[name],
        )
        for name in names[:limit]
    )


def _change(one: Difference) -> Change:
    return Change(
        op=OPS[one.kind],
        path=format_pointer(one.path),
        before=msgspec.UNSET if one.kind == "added" else one.expected,
        after=msgspec.UNSET if one.kind == "removed" else one.observed,
    )
