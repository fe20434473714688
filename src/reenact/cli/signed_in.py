"""Which server is meant, and the key for it: from the environment, or from ``reenact login``."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from reenact.errors import UsageError
from reenact.exchange.client.address import Address, Secret, parse_address
from reenact.store.seal import key_path

__all__ = ["Login", "forget", "heads_path", "keep", "login_path", "read_login", "who_asks"]

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
SERVER, KEY = "REENACT_SERVER", "REENACT_API_KEY"


class Login(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What ``reenact login`` keeps. The key prints as nothing."""

    format: Literal["reenact-login/1"]
    server: str
    key: str
    key_id: str = ""
    who: str = ""

    def __repr__(self) -> str:
        return f"Login({self.server}, {self.who})"


def login_path(environ: Mapping[str, str]) -> Path:
    """In the user's own configuration folder."""
    return key_path(environ).with_name("login.json")


def heads_path(environ: Mapping[str, str]) -> Path:
    """The heads of audit logs that this user has seen."""
    return key_path(environ).with_name("audit-heads.json")


def who_asks(environ: Mapping[str, str]) -> tuple[Address, Secret]:
    """The server and the key for it. What the environment says comes first, and its server never
    gets the key of another one. Raises :class:`UsageError` when there is none."""
    url, key = environ.get(SERVER, ""), environ.get(KEY, "")
    login = None if url and key else read_login(environ)
    if login is not None:
        asked = parse_address(url) if url else parse_address(login.server)
        if key:
            return asked, _secret(key)
        if asked == parse_address(login.server):
            return asked, _secret(login.key)
    if url and key:
        return parse_address(url), _secret(key)
    missing = KEY if url else SERVER
    raise UsageError(
        "no server is named" if not url else f"there is no key for the server in {SERVER}",
        hint=f"reenact login URL, or set {missing}",
    )


def _secret(text: str) -> Secret:
    try:
        return Secret(text)
    except UsageError:
        raise UsageError(
            "the API key is not one: it has spaces, is too short, or is no plain text",
            hint=f"copy it whole into {KEY}, or sign in again: reenact login",
        ) from None


def read_login(environ: Mapping[str, str]) -> Login | None:
    """None when nobody is signed in. Raises :class:`UsageError` for a file that others may read, or
    that cannot be used."""
    path = login_path(environ)
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(1 << 16)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if os.name == "posix" and mode & _OTHERS:
        raise UsageError(
            f"{path} holds a key and can be read by others (mode {stat.S_IMODE(mode):04o})",
            hint=f"chmod 600 {path}; and make a new key, if others did read it",
        )
    try:
        return msgspec.json.decode(data, type=Login)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UsageError(f"{path} is damaged", hint="sign in again: reenact login URL") from None


def keep(login: Login, environ: Mapping[str, str]) -> Path:
    """Write it, readable by its owner only: beside, and then in its place."""
    path = login_path(environ)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.tmp")
    beside.unlink(missing_ok=True)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(msgspec.json.encode(login) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    return path


def forget(environ: Mapping[str, str]) -> None:
    """Nobody is signed in any more."""
    login_path(environ).unlink(missing_ok=True)
