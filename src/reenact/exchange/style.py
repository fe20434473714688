"""How a JSON text is written, so that one that is edited looks like the one it was made from."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

__all__ = ["Style", "print_json", "style_of"]

_INDENTED = re.compile(r"[\[{]\r?\n([ \t]+)\S")
_IN_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')


class Style(msgspec.Struct, frozen=True):
    """``indent`` is what one level adds; None for a text of one line."""

    indent: str | None = None
    item: str = ","
    colon: str = ":"
    ascii_only: bool = False
    end: str = ""


def style_of(text: str) -> Style:
    """The style of ``text``, which is JSON. What is not done the same way everywhere is a guess."""
    bare = _IN_STRINGS.sub('""', text)
    found = _INDENTED.match(bare.lstrip())
    return Style(
        indent=found.group(1) if found else None,
        item=", " if found is None and ", " in bare else ",",
        colon=": "
        if '": ' in bare or (found is None and '":' not in bare and ", " in bare)
        else ":",
        ascii_only=text.isascii() and "\\u" in text,
        end=text[len(text.rstrip()) :],
    )


def print_json(value: Any, style: Style) -> str:
    """``value`` in ``style``."""
    text = json.dumps(
        value,
        ensure_ascii=style.ascii_only,
        indent=style.indent,
        separators=(style.item, style.colon),
    )
    return text + style.end
