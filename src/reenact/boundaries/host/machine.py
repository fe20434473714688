"""The machine, its names and its user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from reenact.boundaries.host.facts import TUPLE, Form, Make, fact
from reenact.boundaries.rebinding import Rebinding
from reenact.engine.patches.patch import Installable

__all__ = ["SEAMS", "seams"]


def _struct(kind: Any) -> Form:
    """Of a named tuple that takes one sequence."""
    return Form(list, kind)


def _os(module: ModuleType) -> Mapping[str, Make]:
    numbers = ("getuid", "geteuid", "getgid", "getegid", "cpu_count", "process_cpu_count")
    return {
        **{name: fact(f"os.{name}") for name in (*numbers, "getlogin")},
        "getloadavg": fact("os.getloadavg", TUPLE, lasting=False),
        "getgroups": fact("os.getgroups"),
        "uname": fact("os.uname", _struct(module.uname_result)),
        "get_terminal_size": fact(
            "os.get_terminal_size", _struct(module.terminal_size), lasting=False
        ),
    }


def _socket(module: ModuleType) -> Mapping[str, Make]:
    return {name: fact(f"socket.{name}") for name in ("gethostname", "getfqdn")}


_PLATFORM: Final = """
    machine node platform processor python_branch python_compiler python_implementation
    python_revision python_version release system version
""".split()
_PLATFORM_TUPLES: Final = "architecture libc_ver python_build python_version_tuple".split()


def _platform(module: ModuleType) -> Mapping[str, Make]:
    def load(values: list[str]) -> Any:
        *five, processor = values
        made = module.uname_result(*five)
        vars(made)["processor"] = processor  # which it would look for when it is asked
        return made

    return {
        **{name: fact(f"platform.{name}") for name in _PLATFORM},
        **{name: fact(f"platform.{name}", TUPLE) for name in _PLATFORM_TUPLES},
        "uname": fact("platform.uname", Form(list, load)),
        "freedesktop_os_release": fact("platform.freedesktop_os_release", Form(dict, dict)),
    }


def _getpass(module: ModuleType) -> Mapping[str, Make]:
    return {"getuser": fact("getpass.getuser")}


def _pwd(module: ModuleType) -> Mapping[str, Make]:
    form = _struct(module.struct_passwd)
    return {name: fact(f"pwd.{name}", form) for name in ("getpwuid", "getpwnam")}


def _locale(module: ModuleType) -> Mapping[str, Make]:
    plain = ("getpreferredencoding", "getencoding")
    return {
        "getlocale": fact("locale.getlocale", TUPLE, lasting=False),
        **{name: fact(f"locale.{name}", lasting=False) for name in plain},
    }


def _shutil(module: ModuleType) -> Mapping[str, Make]:
    form = _struct(os.terminal_size)
    return {"get_terminal_size": fact("shutil.get_terminal_size", form, lasting=False)}


def _multiprocessing(module: ModuleType) -> Mapping[str, Make]:
    return {"cpu_count": fact("multiprocessing.cpu_count")}


SEAMS: Final = {
    "getpass": _getpass,
    "locale": _locale,
    "multiprocessing": _multiprocessing,
    "os": _os,
    "platform": _platform,
    "pwd": _pwd,
    "shutil": _shutil,
    "socket": _socket,
}
"""The functions of each module that tell something about the machine."""


def seams(module: ModuleType) -> list[Installable]:
    """The patches of one of these modules."""
    return [Rebinding(module, SEAMS[module.__name__](module))]
