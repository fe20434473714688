"""Text from outside, marked as such: a model should not take it for instructions."""

from __future__ import annotations

import re

__all__ = ["wrap"]

_BEGIN = "<<<EXTERNAL_UNTRUSTED_CONTENT>>>"
_END = "<<<END_EXTERNAL_UNTRUSTED_CONTENT>>>"
_MARKS = re.compile(r"<{2,}\s*(?:END_)?EXTERNAL_UNTRUSTED_CONTENT\s*>{2,}", re.IGNORECASE)


def wrap(text: str, source: str) -> str:
    """``text`` between marks that do not stand in it."""
    inside = _MARKS.sub("[mark removed]", text)
    return f"{_BEGIN}\nSource: {source}\n---\n{inside}\n{_END}"
