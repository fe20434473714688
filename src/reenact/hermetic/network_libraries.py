"""Known network libraries, and how their connections are covered.

*Covered* libraries have a boundary, or are built on one that has (``httplib2`` uses
``http.client``). *Seen* libraries have none, but connect through Python's ``socket``, where the
guard sees them. *Unseen* libraries connect in C, C++, Rust or Go, where no hook sees them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Final, Literal

import msgspec

from reenact.hermetic.call_origin import is_importing
from reenact.policy.drivers import DRIVERS

__all__ = [
    "BUILT_ON",
    "NETWORK_LIBRARIES",
    "LibraryImportWatch",
    "NetworkLibrary",
    "imported_libraries",
    "installed_libraries",
    "is_covered",
]


class NetworkLibrary(msgspec.Struct, frozen=True):
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
BUILT_ON: Final = {
    "httplib2": "http.client",
    "urllib.request": "http.client",
    "xmlrpc.client": "http.client",
    "boto3": "botocore",
}
"""Known libraries that are covered because of what they stand on."""

NETWORK_LIBRARIES: Final = {
    **{
        module: NetworkLibrary(module, driver.title or driver.name, driver.sends)
        for driver in DRIVERS
        if driver.sends != "file"
        for module in driver.modules
    },
    **{module: NetworkLibrary(module, name, "seen") for module, name in _SEEN.items()},
    # Last: a driver may have a part of its own in C.
    **{module: NetworkLibrary(module, name, "unseen") for module, name in _UNSEEN.items()},
}
"""Seen and unseen ones, by what is imported."""


def is_covered(module: str, covered: Collection[str]) -> bool:
    """Is one of the modules ``covered``, which have a boundary, this one or a part of it?"""
    return any(one == module or one.startswith(f"{module}.") for one in covered)


def installed_libraries(covered: Collection[str]) -> list[NetworkLibrary]:
    """The stacks without a boundary that could be imported, but for parts of Python itself and of
    covered libraries."""
    known = {one.partition(".")[0] for one in covered} | sys.stdlib_module_names
    tops = {module: module.partition(".")[0] for module in NETWORK_LIBRARIES}
    present = [
        module for module, top in tops.items() if top not in known and find_spec(top) is not None
    ]
    return imported_libraries(covered, present)


def imported_libraries(
    covered: Collection[str], modules: Iterable[str] | None = None
) -> list[NetworkLibrary]:
    """The stacks without a boundary that have been imported, by name.

    ``covered`` are modules that have a boundary; ``modules`` is what has been imported.
    """
    present = sys.modules if modules is None else frozenset(modules)
    found = (stack for module, stack in NETWORK_LIBRARIES.items() if module in present)
    return sorted(
        (stack for stack in found if not is_covered(stack.module, covered)),
        key=lambda one: one.name.lower(),
    )


class LibraryImportWatch:
    """Finder that finds nothing, and reports the import of a known network library.

    The audit event of an import misses ``importlib.import_module``.
    """

    def __init__(self, act: Callable[[NetworkLibrary], None]) -> None:
        self._act = act

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        stack = NETWORK_LIBRARIES.get(fullname)
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
