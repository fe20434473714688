"""HTTP client of the server's API, and the login of the user.

The client follows no redirect and sends the API key in one header only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal
from urllib.parse import quote, urlencode

import msgspec

from reenact._net.client import HttpClient, Origin, StreamedResponse, Unreachable
from reenact._net.sse import Event, EventParser, EventTooLarge
from reenact._version import __version__
from reenact.errors import ReenactError, ServerMisused, ServerRefused, ServerUnusable, UsageError
from reenact.exchange.client.address import Address, Secret, parse_address
from reenact.store.seal import key_path

__all__ = [
    "Client",
    "Login",
    "delete_login",
    "find_credentials",
    "heads_path",
    "login_path",
    "part",
    "read_login",
    "refusal",
    "save_login",
    "signed_in_client",
]

_LARGEST_RESPONSE = 256 << 20
_EVENT = 4 << 20
_SECONDS = 60.0
"""Time-out for connecting and for each piece of a response. An event stream has a comment every 15 s."""


def part(text: str) -> str:
    """Quote ``text`` as one segment of a URL path."""
    return quote(text, safe="")


class Client:
    """Client of one server. Each request opens a connection."""

    def __init__(self, address: Address, key: Secret | None = None) -> None:
        if key is not None and not address.is_private:
            raise UsageError(
                f"{address} would get the key in plain text",
                hint="use https://, or the server's own machine",
            )
        self.address = address
        self._key = key

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON of a response."""
        return self._json("GET", path, query)

    def text(self, path: str, query: Mapping[str, Any] | None = None) -> bytes:
        """Return the body of a response that is not JSON."""
        with self._request("GET", path, query) as response:
            return self._read(response)

    def send(
        self, method: str, path: str, value: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Send ``value`` as JSON and return the JSON of the response; None for an empty response."""
        body = None if value is None else msgspec.json.encode(value)
        kind = {} if value is None else {"Content-Type": "application/json"}
        return self._json(method, path, None, body, {**kind, **(headers or {})})

    def send_for_headers(self, method: str, path: str, value: Any) -> tuple[Any, Mapping[str, str]]:
        """Send ``value`` as JSON and return the JSON and the headers of the response."""
        given = {"Content-Type": "application/json"}
        with self._request(method, path, None, msgspec.json.encode(value), given) as response:
            return self._decoded(self._read(response)), response.headers

    def upload(self, path: str, file: Path) -> Any:
        """Send the content of a file."""
        with file.open("rb") as content:
            kind = {
                "Content-Type": "application/octet-stream",
                "Content-Length": str(os.fstat(content.fileno()).st_size),
            }
            return self._json("POST", path, None, content, kind)

    def download(self, path: str, target: Path, query: Mapping[str, Any] | None = None) -> int:
        """Write a response of any size to a file and return the size."""
        written = 0
        with self._request("GET", path, query) as response, target.open("wb") as file:
            for piece in response.chunks:
                written += file.write(piece)
        return written

    def events(self, path: str) -> Iterator[Event]:
        """Yield server-sent events until the server ends the stream or the connection breaks."""
        parser = EventParser(most=_EVENT)
        with self._request("GET", path, headers={"Accept": "text/event-stream"}) as response:
            try:
                for piece in response.chunks:
                    yield from parser.feed(piece)
            except Unreachable:
                return  # the caller requests the current state and opens the stream again
            except EventTooLarge:
                raise self._unusable("an event of it is too large") from None

    def items(self, path: str, query: Mapping[str, Any], limit: int) -> Iterator[dict[str, Any]]:
        """Yield at most ``limit`` items of a paginated list."""
        left, cursor = limit, ""
        while left > 0:
            page = self.get(path, {**query, "limit": min(left, 500), "cursor": cursor})
            if not isinstance(page, dict) or not isinstance(page.get("items"), list):
                raise self._unusable("its list is none")
            yield from page["items"][:left]
            left -= len(page["items"])
            cursor = page.get("next") or ""
            if not cursor or not page["items"]:
                return

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        with self._request(method, path, query, body, headers) as response:
            return self._decoded(self._read(response))

    def _decoded(self, data: bytes) -> Any:
        if not data:
            return None
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._unusable("its response is not JSON") from None

    @contextmanager
    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[StreamedResponse]:
        """Send a request and yield the response. Raises an error for every status except 2xx."""
        address = self.address
        wanted = {name: value for name, value in (query or {}).items() if value not in ("", None)}
        target = f"{address.prefix}{path}{'?' if wanted else ''}{urlencode(wanted)}"
        origin = Origin(address.scheme, address.host, address.port)
        connection = HttpClient(connect_seconds=_SECONDS).connection(origin)
        try:
            response = connection.stream(
                method,
                target,
                headers=self._headers(headers or {}),
                body=body,
                seconds=_SECONDS,
                silence=_SECONDS,
            )
            if not 200 <= response.status < 300:
                raise self._refusal(response, path)
            yield response
        except Unreachable as error:
            raise ServerUnusable(
                f"{address} cannot be asked: {error}",
                hint="is the server running, and is this its address?",
            ) from None
        finally:
            connection.close()

    def _refusal(self, response: StreamedResponse, path: str) -> ReenactError:
        body = self._read(response)
        if 300 <= response.status < 400:
            return self._unusable("it sends us elsewhere, and the key is for this server only")
        return refusal(response.status, body, response.headers.get("retry-after", ""), path=path)

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "User-Agent": f"reenact/{__version__}",
            "Connection": "close",
            **more,
        }
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.reveal()}"
        return headers

    def _read(self, response: StreamedResponse) -> bytes:
        body = bytearray()
        for piece in response.chunks:
            body += piece
            if len(body) > _LARGEST_RESPONSE:
                raise self._unusable("its response is too large")
        return bytes(body)

    def _unusable(self, why: str) -> ServerUnusable:
        return ServerUnusable(
            f"{self.address} is no Reenact server: {why}", hint="check its address"
        )


def signed_in_client() -> Client:
    """Return a client for the server and key in the environment or from ``reenact login``."""
    return Client(*find_credentials(os.environ))


_OTHERS = stat.S_IRWXG | stat.S_IRWXO
SERVER, KEY = "REENACT_SERVER", "REENACT_API_KEY"


class Login(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """File that ``reenact login`` writes. Its representation omits the key."""

    format: Literal["reenact-login/1"]
    server: str
    key: str
    key_id: str = ""
    who: str = ""

    def __repr__(self) -> str:
        return f"Login({self.server}, {self.who})"


def login_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the login file in the user's configuration folder."""
    return key_path(environ).with_name("login.json")


def heads_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the file with the last audit log heads that this user has seen."""
    return key_path(environ).with_name("audit-heads.json")


def find_credentials(environ: Mapping[str, str]) -> tuple[Address, Secret]:
    """Return the server and the key for it. The environment has priority over the login.

    A server named in the environment never gets the key of another one. Raises :class:`UsageError` if the server
    or the key is unknown.
    """
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
        "no server is specified" if not url else f"no key is set for the server in {SERVER}",
        hint=f"reenact login URL, or set {missing}",
    )


def _secret(text: str) -> Secret:
    try:
        return Secret(text)
    except UsageError:
        raise UsageError(
            "the API key is invalid: it has spaces, is too short, or is not ASCII text",
            hint=f"copy the complete key into {KEY}, or sign in again: reenact login",
        ) from None


def read_login(environ: Mapping[str, str]) -> Login | None:
    """Read the login file; None if it does not exist.

    Raises :class:`UsageError` if it is damaged or readable by other users.
    """
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


def save_login(login: Login, environ: Mapping[str, str]) -> Path:
    """Write the login file atomically, readable by its owner only."""
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


def delete_login(environ: Mapping[str, str]) -> None:
    """Delete the login file."""
    login_path(environ).unlink(missing_ok=True)


_MOST = 2_000
_REPORT: Final = "send the request id to the operator of the server"


class _Facts(msgspec.Struct):
    code: str
    message: str = ""
    hint: str = ""
    details: dict[str, Any] = {}
    requestId: str = ""


class _Body(msgspec.Struct):
    error: _Facts


_MISUSE: Final = frozenset({400, 404, 405, 413, 415, 422})
_OUR_MISTAKE: Final = frozenset({"conflict", "exchange_conflict", "idempotency_conflict"})

_OURS: Final = {
    "unauthenticated": "sign in: reenact login URL; or set REENACT_SERVER and REENACT_API_KEY",
    "session_expired": "sign in again: reenact login",
    "reason_required": "say why: --reason TEXT",
    "revision_mismatch": "replay through the current route: --revision current",
}
"""Hints by error code that replace the server's own, because they name a command."""

_OTHERWISE: Final = {
    "malformed": "is the server of this version? see its log for the request id",
    "credentials_wrong": "check both; for a forgotten password, an administrator runs: reenact user invite",
    "csrf_failed": "sign in again: reenact login",
    "permission_denied": "ask a tenant administrator: reenact user grant",
    "production_permission_required": "ask a tenant administrator for replay:execute:production",
    "live_permission_required": "ask for replay:live, or replay with --boundaries recorded",
    "tier_required": "ask the administrators of the platform: reenact tenant set",
    "key_bound_elsewhere": "use the key that was made for this app and environment: reenact key ls",
    "setup_done": "there is an account already: reenact login URL",
    "agent_unknown": "list the agents: reenact agents",
    "method_not_allowed": "check that the server has this version: reenact --version",
    "drivers_undeclared": "declare them in the app: Agent(…, drivers={…}); see reenact agents",
    "agent_offline": "list the agents: reenact agents",
    "agent_superseded": "another process uses the same id: reenact agents",
    "conflict": "check the current state and change the request",
    "exchange_conflict": "another exchange has this id: reenact exchange show ID",
    "idempotency_conflict": "repeat the request: each replay needs its own key",
    "replay_depth": "replay the original instead, which is shown by: reenact exchange show ID",
    "gone": "it was erased or has ended; list the exchanges: reenact exchange ls",
    "not_replayable": "find replayable exchanges: reenact exchange ls --replayable",
    "too_large": "send less at once",
    "too_slow": "the connection or a proxy is slow: send less at once",
    "unsupported": "check that the server has this version: reenact --version",
    "invalid": "check the arguments with --help",
    "payload_invalid": "check the paths: reenact exchange show ID has the payload",
    "rate_limited": "wait a moment and try again",
    "internal": f"{_REPORT}: it is in the log",
    "damaged": f"{_REPORT}; check the log: reenact audit verify",
    "storage_full": "ask the operator of the server to free disk space; nothing was stored",
    "unavailable": "wait a moment and try again",
}
"""Hints by error code for responses without one."""

_LISTS: Final = (
    ("/api/v1/replays", "list the replays: reenact exchange replays"),
    ("/api/v1/exchanges", "list the exchanges: reenact exchange ls"),
    ("/api/v1/captures", "send it first: reenact push RUN"),
    ("/api/v1/users", "list the users: reenact user ls"),
    ("/api/v1/keys", "list the keys: reenact key ls"),
    ("/api/v1/tenants", "list the tenants: reenact tenant ls"),
    ("/api/v1/environments", "list the environments: reenact environment ls"),
    ("/api/v1/audit", "list the records: reenact audit ls"),
    ("/api/v1/agents", "list the agents: reenact agents"),
)


def refusal(status: int, body: bytes, retry_after: str = "", *, path: str = "") -> ReenactError:
    """Return the exception for a response with status 4xx or 5xx to a request of ``path``.

    The field ``problem`` is the server's error code.
    """
    try:
        facts = msgspec.json.decode(body, type=_Body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        facts = _Facts(code="", message=f"the server answered {status}, and not in our shape")
    hint = _hint(facts, path)
    if retry_after.isdecimal():
        hint = f"ask again in {retry_after} s" if not hint else f"{hint} ({retry_after} s)"
    return _kind(status, facts.code)(
        facts.message[:_MOST] or facts.code or f"the server answered {status}",
        hint=hint[:_MOST] or _REPORT,
        problem=facts.code or None,
        status=status,
        requestId=facts.requestId or None,
    )


def _kind(status: int, code: str) -> type[ReenactError]:
    if status in _MISUSE or (status < 500 and code in _OUR_MISTAKE):
        return ServerMisused
    return ServerRefused if 400 <= status < 500 and status != 410 else ServerUnusable


def _hint(facts: _Facts, path: str) -> str:
    said = _OURS.get(facts.code) or facts.hint or _OTHERWISE.get(facts.code, "")
    if said or facts.code != "not_found":
        return said
    return next((hint for part, hint in _LISTS if path.startswith(part)), "check its address")
