"""Explanation of the effective settings: each value and its origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from reenact.policy.model import Pinned

__all__ = ["EffectiveSetting", "Origin", "describe"]

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
