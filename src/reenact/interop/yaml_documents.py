"""YAML documents as data: dict, list, str, bytes and None, never objects.

The document is built event by event and without recursion, because a few bytes of YAML can be
nested so deeply that the usual readers crash. Numbers, dates and booleans stay text. An alias is a
reference to its value, not a copy, so an alias bomb stays small.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Any, Final

from reenact.errors import ExtraMissing
from reenact.interop.model import damaged

__all__ = ["Unquoted", "read_yaml", "write_yaml"]

_DEEPEST = 100
_TAG = "tag:yaml.org,2002:"
_TEXTS = frozenset(
    f"{_TAG}{name}"
    for name in ("str", "int", "float", "bool", "timestamp", "python/str", "python/unicode")
)
_LISTS = frozenset({f"{_TAG}seq", f"{_TAG}python/tuple"})
_BUFFER: Final = f"{_TAG}python/object/new:_io.BytesIO"
_ITERATOR: Final = f"{_TAG}python/object/apply:builtins.iter"
_MAPS = frozenset({f"{_TAG}map", _BUFFER, _ITERATOR})
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class Unquoted(str):
    """A text without quotes around it, which may mean a number or a truth value."""

    __slots__ = ()

    def value(self) -> Any:
        """What it means."""
        if self in _TRUTHS:
            return _TRUTHS[self]
        if _INTEGER.fullmatch(self):
            return int(self)
        return float(self) if _FLOAT.fullmatch(self) else str(self)


_TRUTHS = {"true": True, "false": False}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,299})", re.ASCII)
_FLOAT = re.compile(r"[-+]?[0-9]{1,300}\.[0-9]{0,300}(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)


def read_yaml(content: bytes) -> Any:
    """The value of a YAML document; None of an empty one.

    Raises :class:`RecordingDamaged` that names the line, and :class:`ExtraMissing`.
    """
    yaml = _yaml("reading a YAML cassette")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    reader = _Reader()
    try:
        for event in yaml.parse(content, Loader=loader):
            reader.take(event)
    except yaml.YAMLError as error:  # its text quotes the document
        mark = getattr(error, "problem_mark", None)
        place = "the document" if mark is None else f"line {mark.line + 1}"
        raise damaged("not YAML that can be read", place) from None
    except ValueError:  # bytes that are not text
        raise damaged("not YAML that can be read", "the document") from None
    return reader.document


class _Open:
    """List or mapping that is not complete yet."""

    __slots__ = ("key", "tag", "value")

    def __init__(self, value: Any, tag: str) -> None:
        self.value = value
        self.tag = tag
        self.key: Any = _Open  # of a mapping: the next value is one

    def add(self, item: Any, event: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(item)
        elif self.key is not _Open:
            self.value[self.key] = item
            self.key = _Open
        elif not isinstance(item, str):
            raise _refused("a key is not text", event)
        elif item == "<<":  # a few lines of merging can stand for gigabytes
            raise _refused("merge keys are not read", event)
        else:
            self.key = item


class _Reader:
    """Puts events together."""

    def __init__(self) -> None:
        self.document: Any = None
        self._open: list[_Open] = []
        self._anchors: dict[str, Any] = {}
        self._documents = 0

    def take(self, event: Any) -> None:
        """The next event, by the name of its class."""
        match type(event).__name__:
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    raise _refused("there is more than one document", event)
            case "ScalarEvent":
                self._add(self._named(event, _scalar(event)), event)
            case "AliasEvent":
                if event.anchor not in self._anchors:
                    raise _refused("an alias names nothing", event)
                self._add(self._anchors[event.anchor], event)
            case "SequenceStartEvent":
                self._begin([], event, _LISTS)
            case "MappingStartEvent":
                self._begin({}, event, _MAPS)
            case "SequenceEndEvent" | "MappingEndEvent":
                self._end(event)

    def _begin(self, value: Any, event: Any, known: frozenset[str]) -> None:
        tag = event.tag or ""
        if tag not in ("", "!") and tag not in known:
            raise _refused("it contains a tag that creates an object", event)
        if len(self._open) == _DEEPEST:
            raise _refused("it is nested too deeply", event)
        self._open.append(_Open(self._named(event, value), tag))

    def _end(self, event: Any) -> None:
        done = self._open.pop()
        self._add(_plain(done), event)

    def _named(self, event: Any, value: Any) -> Any:
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _add(self, item: Any, event: Any) -> None:
        if self._open:
            self._open[-1].add(item, event)
        else:
            self.document = item


def _scalar(event: Any) -> Any:
    tag, text = event.tag, str(event.value)
    if tag in (None, "!"):
        if tag is None and event.implicit[0]:
            return None if text in _NULLS else Unquoted(text)
        return text
    if tag == f"{_TAG}binary":
        try:
            return b64decode("".join(text.split()))
        except (binascii.Error, ValueError):
            raise _refused("it is not base64", event) from None
    if tag == f"{_TAG}null":
        return None
    if tag not in _TEXTS:
        raise _refused("it contains a tag that creates an object", event)
    return text


def _plain(done: _Open) -> Any:
    """Return the content of a body that vcrpy stored as an object, such as a file or an iterator."""
    if done.tag == _BUFFER:
        return _first(done.value.get("state"), b"")
    if done.tag == _ITERATOR:
        return _first(done.value.get("args"), [])
    return done.value


def _first(value: Any, otherwise: Any) -> Any:
    return value[0] if isinstance(value, list) and value else otherwise


def _refused(why: str, event: Any) -> Exception:
    return damaged(why, f"line {event.start_mark.line + 1}")


def write_yaml(value: Any) -> bytes:
    """``value`` as a YAML document. Raises :class:`ExtraMissing`."""
    yaml = _yaml("writing a YAML cassette")
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc]  # which one is known at run time
        def ignore_aliases(self, data: Any) -> bool:
            return True

    content: bytes = yaml.dump(
        value, Dumper=Dumper, encoding="utf-8", allow_unicode=True, sort_keys=False
    )
    return content


def _yaml(feature: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ExtraMissing(feature, "yaml") from None
    return yaml
