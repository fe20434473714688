"""The name of a test's cassette: the same in every run, and of no other test.

    tests/api/test_weather.py::TestBern::test_now        tests/api/test_weather/TestBern.test_now
    tests/test_weather.py::test_of[Bern]                  tests/test_weather/test_of-bern-1f0c9a2b

What stands in the brackets may be anything: it is made safe for every file system, and has a digest
after it where that changes it. Names that differ in nothing but their case are one file in some.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from reenact.policy.paths import unsafe

__all__ = ["default_name"]

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.=+-]+")
_LONGEST: Final = 100
_DIGITS: Final = 8


def default_name(nodeid: str) -> str:
    """The name of the cassette of the test ``nodeid``, under a folder for its module."""
    file, _, rest = nodeid.partition("::")
    base, bracket, brackets = rest.partition("[")
    name = _segment(base.replace("::", "."))
    if bracket:
        name = _with_parameters(name, brackets.removesuffix("]"), rest)
    return f"{_module(file)}/{_bounded(name, rest)}"


def _module(file: str) -> str:
    """The path of the module, without its ending; without where it is if that is above us."""
    *folders, name = file.split("/")
    stem = name.removesuffix(".py")
    if ".." in folders or not all(folders):
        return f"{_segment(stem)}-{_digest(file)}"
    return "/".join(map(_segment, (*folders, stem)))


def _segment(text: str) -> str:
    safe = _UNSAFE.sub("-", text).strip(".")
    return safe if safe == text and unsafe(text) is None else f"{safe}-{_digest(text)}"


def _with_parameters(name: str, parameters: str, whole: str) -> str:
    safe = _UNSAFE.sub("-", parameters).strip("-.").lower()
    if safe == parameters and safe and "-" not in name and not safe.endswith(".jsonl"):
        return f"{name}-{safe}"
    return f"{name}-{safe}-{_digest(whole)}" if safe else f"{name}-{_digest(whole)}"


def _bounded(name: str, whole: str) -> str:
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{_digest(whole)}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
