"""Tiers of the code that makes a call: user, library or plumbing.

Clock readings and random values of the user's modules are part of the program. The draws of
libraries above a boundary are served while the recording has some. Plumbing (the standard library, clients,
event loops) is ignored, because its draws depend on the machine.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final, Literal

__all__ = ["KNOWN", "PLUMBING", "SEEN_THROUGH", "Tier", "caller", "tier", "tier_of", "why"]

Tier = Literal["user", "library", "plumbing"]

PLUMBING: Final = frozenset(
    """
    aiohttp aiohttp_retry aiosignal anyio asyncio attr attrs boto3 botocore brotli certifi
    cffi charset_normalizer chardet click coverage cryptography dns execnet frozenlist gevent
    google.api_core google.auth greenlet grpc h11 h2 h5 hpack httpcore httpcore2 httplib2 httptools httpx httpx2 httpx_aiohttp
    httpx_sse hyperframe hypothesis idna jmespath msgspec multidict orjson OpenSSL pip pluggy
    pytest_randomly
    propcache psutil pytest _pytest reenact requests s3transfer setuptools simplejson six sniffio
    socks socksio tornado trio trustme urllib3 uvloop vcr websocket
    websockets wsproto xdist yarl
    """.split()
)
"""Top packages of clients and of what is below them, of event loops, loggers and test runners."""

LOGGING: Final = frozenset({"gzip", "logging", "tarfile", "zipfile"})
"""Of the standard library, and yet no plumbing: their time stamps are output of the program."""

SEEN_THROUGH: Final = frozenset(
    "crypt email fastuuid numpy random secrets statistics tempfile uuid uuid_utils".split()
)
"""Modules that draw on behalf of their callers."""

KNOWN: Final[dict[Any, Tier]] = {}
"""Tiers by module name, a cache for callers that cannot afford to call :func:`tier_of`."""

_STANDARD = frozenset(sys.stdlib_module_names)


def _folder(name: str) -> str:
    """Return ``sysconfig.get_path(name)`` without loading the build variables of this Python."""
    scheme = sysconfig.get_paths(expand=False)
    known = {
        "base": sys.prefix,
        "platbase": sys.exec_prefix,
        "installed_base": sys.base_prefix,
        "installed_platbase": sys.base_exec_prefix,
        "platlibdir": sys.platlibdir,
        "py_version_short": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    try:
        return os.path.normpath(scheme[name].format(**known))
    except KeyError:  # a scheme of another system, or of a later Python
        return sysconfig.get_path(name)


_FOLDERS: Final = tuple({_folder("purelib"), _folder("platlib")})
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_OF_PYTHON: Final = (_folder("stdlib"), _folder("platstdlib"), "<")


def tier_of(module: dict[str, Any]) -> Tier:
    """Return the tier of the code with the globals ``module``."""
    name = module.get("__name__")
    if type(name) is not str:
        return "user"
    found = KNOWN.get(name)
    if found is None:
        found = KNOWN[name] = tier(name, module.get("__file__"))
    return found


def tier(name: str, file: str | None) -> Tier:
    """Return the tier of the module ``name`` that was loaded from ``file``."""
    return why(name, file)[0]


def why(name: str, file: str | None) -> tuple[Tier, str]:
    """Return the tier of a module, with the reason in words."""
    if name in ("__main__", "__mp_main__"):
        return "user", "the program itself"
    *_, top = packages = list(_packages(name))
    if not PLUMBING.isdisjoint(packages):
        return "plumbing", "a client library or a library that it uses"
    if top in LOGGING:
        return "library", "logs messages of the program with the time"
    installed = file is not None and _is_installed(file)
    if top in _STANDARD and (file is None or (not installed and _is_standard(file))):
        return "plumbing", "the standard library"
    if installed:
        return "library", "an installed library"
    return "user", "not installed: the user's own"


def _packages(name: str) -> Iterator[str]:
    """Yield ``a.b.c``, ``a.b`` and ``a``."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _is_installed(file: str) -> bool:
    parts = file.replace(os.altsep or os.sep, os.sep).split(os.sep)
    return not _INSTALLED.isdisjoint(parts) or file.startswith(_FOLDERS)


def _is_standard(file: str) -> bool:
    return file.startswith(_OF_PYTHON)


def caller(depth: int) -> FrameType | None:
    """Return the frame that draws: ``depth`` frames above, or the caller of a module that draws on
    behalf of others."""
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if not isinstance(name, str):
            return frame
        # If files are watched, Reenact's ``open`` calls the opener of ``tempfile``.
        if (
            name.partition(".")[0] not in SEEN_THROUGH
            and name != "reenact.boundaries.files.patches"
        ):
            return frame
        frame = frame.f_back
    return None
