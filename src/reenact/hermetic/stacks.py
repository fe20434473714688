"""The network stacks that are known, and what is known of them.

Three kinds. *Covered* ones have a boundary, or stand on one that has (``httplib2`` is made of
``http.client``). *Seen* ones have none, but make their connections through Python's ``socket``,
where the guard sees them. *Unseen* ones connect in C, C++, Rust or Go, out of sight of any hook.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Final, Literal

import msgspec

from reenact.hermetic.origin import is_importing
from reenact.policy.drivers import DRIVERS

__all__ = ["ABOVE", "STACKS", "Stack", "StackWatch", "imported", "installed", "is_covered"]


class Stack(msgspec.Struct, frozen=True):
    """``module`` is what a program imports, ``name`` what people call it."""

    module: str
    name: str
    kind: Literal["seen", "unseen"]


_UNSEEN = {
    "_mysql_connector": "mysql-connector in C",
    "pycares": "pycares (c-ares)",
    "uvloop": "uvloop",
    "winloop": "winloop",
}
_SEEN = {
    "aioftp": "aioftp",
    "aioquic": "aioquic",
    "aiosmtplib": "aiosmtplib",
    "asyncssh": "asyncssh",
    "dns": "dnspython",
    "ftplib": "ftplib",
    "imaplib": "imaplib",
    "niquests": "niquests",
    "nntplib": "nntplib",
    "paramiko": "paramiko",
    "poplib": "poplib",
    "smtplib": "smtplib",
    "telnetlib": "telnetlib",
    "tornado.iostream": "tornado",
    "twisted.internet": "twisted",
    "urllib3_future": "urllib3.future",
    "websocket": "websocket-client",
    "websockets.legacy": "websockets (legacy)",
}
ABOVE: Final = {
    "httplib2": "http.client",
    "urllib.request": "http.client",
    "xmlrpc.client": "http.client",
    "boto3": "botocore",
}
"""Known libraries that are covered because of what they stand on."""

STACKS: Final = {
    **{
        module: Stack(module, driver.title or driver.name, driver.sends)
        for driver in DRIVERS
        if driver.sends != "file"
        for module in driver.modules
    },
    **{module: Stack(module, name, "seen") for module, name in _SEEN.items()},
    # Last: a driver may have a part of its own in C.
    **{module: Stack(module, name, "unseen") for module, name in _UNSEEN.items()},
}
"""Seen and unseen ones, by what is imported."""


def is_covered(module: str, covered: Collection[str]) -> bool:
    """Is one of the modules ``covered``, which have a boundary, this one or a part of it?"""
    return any(one == module or one.startswith(f"{module}.") for one in covered)


def installed(covered: Collection[str]) -> list[Stack]:
    """The stacks without a boundary that could be imported, but for parts of Python itself and of
    covered libraries."""
    known = {one.partition(".")[0] for one in covered} | sys.stdlib_module_names
    tops = {module: module.partition(".")[0] for module in STACKS}
    present = [
        module for module, top in tops.items() if top not in known and find_spec(top) is not None
    ]
    return imported(covered, present)


def imported(covered: Collection[str], modules: Iterable[str] | None = None) -> list[Stack]:
    """The stacks without a boundary that have been imported, by name.

    ``covered`` are modules that have a boundary; ``modules`` is what has been imported.
    """
    present = sys.modules if modules is None else frozenset(modules)
    found = (stack for module, stack in STACKS.items() if module in present)
    return sorted(
        (stack for stack in found if not is_covered(stack.module, covered)),
        key=lambda one: one.name.lower(),
    )


class StackWatch:
    """Finds nothing; says when a known stack is imported that is there. The audit event of an import misses
    ``importlib.import_module``."""

    def __init__(self, act: Callable[[Stack], None]) -> None:
        self._act = act

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        stack = STACKS.get(fullname)
        if stack is None or not is_importing(fullname):
            return
        others = [finder for finder in sys.meta_path if finder is not self]
        if any(one.find_spec(fullname, path, target) is not None for one in others):
            self._act(stack)

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
