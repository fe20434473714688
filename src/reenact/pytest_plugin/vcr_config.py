"""The settings of vcrpy, in our words: what counts in a comparison, and who is let through."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from reenact.policy.model import Ignore
from reenact.policy.redaction.redactor import Redactor
from reenact.pytest_plugin.vcr_warning import warn_once

__all__ = ["Translated", "translated"]

_DEFAULT_MATCH = ("method", "scheme", "host", "port", "path", "query")
_URL = frozenset({"scheme", "host", "port", "path", "query"})
_WHOLE_URL = frozenset({"uri", "url"})
_BODY = frozenset({"body", "raw_body"})
_LOCAL = ("localhost", "0.0.0.0", "127.0.0.1", "::1")
_FILTERS = ("filter_headers", "filter_query_parameters", "filter_post_data_parameters")

_HONOURED = frozenset(
    {
        *_FILTERS,
        "filter_nested_post_data_parameters",
        "match_on",
        "ignore_hosts",
        "ignore_localhost",
        "record_mode",
        "serializer",
        "cassette_library_dir",
        "decode_compressed_response",
    }
)
"""A coded body is kept as it came, and served decoded by the client: nothing has to be done."""

_HARMLESS = frozenset({"cookie", "set-cookie", "user-agent", "host", "date", "accept"})
"""Names that are always hidden as what they are, and such as nobody would miss."""

_WHY = {
    "allowed_hosts": "no host is let through",
    "allow_playback_repeats": "a recorded call answers one call",
    "before_record_request": "secrets are taken out by rules: see policies and sanitizers",
    "before_record_response": "secrets are taken out by rules: see policies and sanitizers",
    "before_record": "secrets are taken out by rules: see policies and sanitizers",
    "filter_sensitive_data": "declare the values in a sanitizer (declaredEnv)",
}


class Translated(msgspec.Struct, frozen=True):
    """``ignore`` is what does not count; ``pass_hosts`` are asked, and not recorded."""

    ignore: Ignore
    pass_hosts: tuple[str, ...] = ()


def translated(item: pytest.Item, config: dict[str, Any], *, writes: bool) -> Translated:
    """What ``config`` says. Warns, once each, of what is not honoured; ``writes``: also of names
    that a recording would have."""
    for name in config.keys() - _HONOURED:
        if config[name]:
            warn_once(item, name, _WHY.get(name, "there is nothing like it here"))
    if writes:
        _check_names(item, config)
    match_on = {str(name) for name in config.get("match_on") or _DEFAULT_MATCH}
    paths = [*_ignored(item, match_on), *_body_paths(config)]
    query = _names(config.get("filter_query_parameters"))
    return Translated(Ignore(paths=tuple(paths), query=tuple(query)), _hosts(item, config))


def _ignored(item: pytest.Item, match_on: set[str]) -> list[str]:
    """The places in a request that ``match_on`` leaves out."""
    paths = []
    if not match_on & _BODY:
        paths += ["$.request.body", "$.request.type"]
    if "method" not in match_on:
        paths += ["$.op", "$.request.method"]
    if not match_on & (_URL | _WHOLE_URL):
        paths.append("$.request.url")
    elif not match_on & _WHOLE_URL and (left := _URL - match_on):
        named = ", ".join(sorted(left))
        warn_once(item, f"match_on without {named}", "the URL is compared as a whole")
    for name in sorted(match_on - _URL - _WHOLE_URL - _BODY - {"method"}):
        warn_once(item, f"match_on {name}", "headers that count are named in a policy (keyHeaders)")
    return paths


def _body_paths(config: dict[str, Any]) -> list[str]:
    deep = ".." if config.get("filter_nested_post_data_parameters") else ""
    names = _names(config.get("filter_post_data_parameters"))
    return [f"$.request.body{deep}['{_quoted(name)}']" for name in names]


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")


def _names(given: Iterable[Any] | None) -> list[str]:
    """Of a filter: a name, or a name and what stands in its place."""
    return [str(one[0]) if isinstance(one, tuple) else str(one) for one in given or ()]


def _check_names(item: pytest.Item, config: dict[str, Any]) -> None:
    """Names that a filter takes out, and that we would write."""
    redactor = Redactor()
    for kind in _FILTERS:
        for name in _names(config.get(kind)):
            if not redactor.hides(name) and name.lower() not in _HARMLESS:
                why = "a recording would have it: name it under secretNames in a sanitizer"
                warn_once(item, f"{kind} {name}", why)


def _hosts(item: pytest.Item, config: dict[str, Any]) -> tuple[str, ...]:
    hosts = list(config.get("ignore_hosts") or ())
    if config.get("ignore_localhost"):
        hosts += _LOCAL
    for host in hosts:
        if not isinstance(host, str):
            warn_once(item, "ignore_hosts with a pattern", "name the hosts themselves")
    return tuple(dict.fromkeys(host for host in hosts if isinstance(host, str)))
