"""The ``login`` and ``logout`` commands."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from reenact.cli._client import (
    SERVER,
    Client,
    Login,
    delete_login,
    login_path,
    read_login,
    save_login,
)
from reenact.cli._output import print_result
from reenact.cli._parser import Command, argument, json_flag, takes
from reenact.errors import ServerRefused, ServerUnusable, UsageError
from reenact.exchange.client.address import Secret, parse_address

__all__ = ["COMMANDS"]

_LONGEST = 4_096


def login(args: argparse.Namespace) -> int:
    url, token = _asked_for(args.url)
    client = Client(parse_address(_base(url) if token else url))
    if not client.address.is_private:
        raise UsageError(
            f"{client.address} would get the password in plain text", hint="use https://"
        )
    invited = bool(token) and urlsplit(url).path.endswith("/invite")
    email = "" if invited else args.email or _asked("E-mail: ")
    password = _password(args, again=bool(token))
    if invited:
        made = client.send("POST", "/api/v1/invite", {"token": token, "password": password})
        email = str(made.get("email", ""))
    elif token:
        asked = {"token": token, "email": email, "password": password}
        client.send("POST", "/api/v1/setup", asked)
    kept = _own_key(client, email, password, args)
    path = save_login(kept, os.environ)
    found = {"server": kept.server, "who": email, "keyId": kept.key_id}
    text = f"signed in to {kept.server} as {email}; the key is in {path}"
    return print_result(args, found, text)


def _asked_for(url: str | None) -> tuple[str, str]:
    """Return the server's address and the token of a set-up or invitation link."""
    if url is None:
        known = read_login(os.environ)
        url = os.environ.get(SERVER) or (known.server if known is not None else "")
    if not url:
        raise UsageError("which server?", hint="reenact login https://reenact.example")
    try:
        parts = urlsplit(url)
        given = {**parse_qs(parts.query), **parse_qs(parts.fragment)}
    except ValueError:
        raise UsageError("the link cannot be read", hint="copy it whole") from None
    return url.partition("?")[0].partition("#")[0], next(iter(given.get("token", [])), "")


def _base(link: str) -> str:
    """Return the server's address: the link without ``setup`` or ``invite``."""
    return link.rstrip("/").rpartition("/")[0]


def _asked(prompt: str) -> str:
    if not sys.stdin.isatty():
        raise UsageError(
            "cannot prompt: standard input is not a terminal", hint="--email EMAIL --password-stdin"
        )
    print(prompt, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def _password(args: argparse.Namespace, *, again: bool) -> str:
    if args.password_stdin:
        return sys.stdin.readline(_LONGEST).rstrip("\r\n")
    if not sys.stdin.isatty():
        raise UsageError(
            "cannot prompt for a password: standard input is not a terminal",
            hint="--password-stdin",
        )
    password = getpass.getpass("Password: ", stream=sys.stderr)
    if again and getpass.getpass("Once more: ", stream=sys.stderr) != password:
        raise UsageError("the two are not the same", hint="try again")
    return password


def _own_key(client: Client, email: str, password: str, args: argparse.Namespace) -> Login:
    """Create a key in a temporary session."""
    asked = {"email": email, "password": password}
    if args.tenant:
        asked["tenant"] = args.tenant
    session, headers = client.send_for_headers("POST", "/api/v1/session", asked)
    own = {
        "Cookie": _cookie(headers.get("set-cookie", "")),
        "X-CSRF-Token": str(session.get("csrfToken", "")),
        "Sec-Fetch-Site": "same-origin",
    }
    try:
        made = client.send("POST", "/api/v1/keys/own", {"name": args.name}, own)
    finally:
        client.send("DELETE", "/api/v1/session", headers=own)
    key = made.get("key") if isinstance(made, dict) else None
    if not isinstance(key, str):
        raise ServerUnusable(
            f"{client.address} gave no key", hint="is it a Reenact server of this version?"
        )
    return Login("reenact-login/1", str(client.address), key, str(made.get("id", "")), email)


def _cookie(text: str) -> str:
    try:
        found = SimpleCookie(text)
    except CookieError:
        found = SimpleCookie()
    return "; ".join(f"{name}={one.value}" for name, one in found.items())


def logout(args: argparse.Namespace) -> int:
    known = read_login(os.environ)
    revoked = known is not None and _revoke(known)
    delete_login(os.environ)
    said: dict[str, Any] = {"signedOut": known is not None, "revoked": revoked}
    if known is None:
        text = f"not signed in: {login_path(os.environ)} does not exist"
    else:
        how = "the key is revoked" if revoked else "the key is forgotten here; it is still valid"
        text = f"signed out of {known.server}: {how}"
    return print_result(args, said, text)


def _revoke(known: Login) -> bool:
    """Revoke the key; False if the server is unreachable or no longer accepts it."""
    try:
        client = Client(parse_address(known.server), Secret(known.key))
        client.send("DELETE", "/api/v1/keys/own")
    except (ServerRefused, ServerUnusable):
        return False
    return True


COMMANDS = {
    "login": Command(
        description="Signs in with e-mail address and password, and keeps a key of your own for the command line "
        "in a file that only you can read. A link for the first account, or an invitation, sets the "
        "password first. REENACT_SERVER and REENACT_API_KEY come before the file.",
        example="reenact login https://reenact.example --email ann@acme.example",
        arguments=takes(
            argument("url [URL]", "the server, or the link for the first account or an invitation"),
            argument("--email EMAIL", "your e-mail address (default: prompt)"),
            argument("--tenant TENANT", "the tenant by name or id, if you belong to several"),
            argument("--password-stdin", "read the password from standard input"),
            argument("--name NAME", "what the key is called", default="command line"),
            json_flag("who is signed in as JSON"),
        ),
        run=login,
    ),
    "logout": Command(
        description="Revokes the key that login made, and forgets it.",
        example="reenact logout --json",
        arguments=json_flag("what was done as JSON"),
        run=logout,
    ),
}
