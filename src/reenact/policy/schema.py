"""The JSON Schemas of the policy files and of ``tests.json``, made from the types that read them."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from reenact.policy.index import INDEX_SCHEMA, Index
from reenact.policy.json_tests import TESTS_SCHEMA, Cases
from reenact.policy.model import POLICY_SCHEMA, SANITIZER_SCHEMA, Policy, Sanitizer

__all__ = ["FILES", "schemas"]

FILES: dict[str, tuple[type[msgspec.Struct], str]] = {
    "policy": (Policy, POLICY_SCHEMA),
    "sanitizer": (Sanitizer, SANITIZER_SCHEMA),
    "index": (Index, INDEX_SCHEMA),
    "tests": (Cases, TESTS_SCHEMA),
}
"""The kinds of files: their shape, and what they say about themselves."""

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, str]:
    """File names and texts, as they lie in ``reenact/policy/schemas``."""
    return {f"{name}.schema.json": _text(name, kind) for name, (kind, _) in FILES.items()}


def _text(name: str, kind: type[msgspec.Struct]) -> str:
    made = msgspec.json.schema(kind)
    parts = {title: _tidy(part) for title, part in made["$defs"].items()}
    whole = parts.pop(kind.__name__)
    # The reader checks it before anything else.
    version = next(iter(whole["properties"]))
    whole["required"] = [version, *whole.get("required", [])]
    whole["title"] = f"{name.capitalize()} file of Reenact"
    head = {"$schema": _DRAFT, "$id": f"{name}.schema.json"}
    return json.dumps({**head, **whole, **({"$defs": parts} if parts else {})}, indent=2) + "\n"


def _tidy(part: Any) -> Any:
    """Docstrings in one line."""
    if isinstance(part, dict):
        return {name: _tidy(item) for name, item in part.items()}
    if isinstance(part, list):
        return [_tidy(item) for item in part]
    return re.sub(r"\s+", " ", part) if isinstance(part, str) else part
