"""The OpenID provider: its settings, its metadata, its keys, and the exchange of codes.

All addresses come from the metadata of the configured issuer. Requests use TLS and follow no
redirects.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote_plus, urlencode

import msgspec

from reenact.errors import UsageError
from reenact.server.auth.oidc.tokens import TokenRefused, kid_of
from reenact.server.outgoing_http import Response, Unreachable, check_url, send_request
from reenact.server.problems import Problem

__all__ = [
    "Given",
    "Metadata",
    "OidcSettings",
    "Provider",
    "read_settings",
]

T = TypeVar("T")
SendRequest = Callable[..., Response]
_PAGE: Final = "/.well-known/openid-configuration"
_FRESH: Final = 3_600_000
"""Milliseconds for which the provider's metadata is cached."""
_OFTEN: Final = 60_000
"""Minimum milliseconds between two key fetches that are caused by an unknown key id."""
_JSON: Final = {"Accept": "application/json"}


class Metadata(msgspec.Struct, frozen=True):
    """The used part of the provider's metadata."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class Given(msgspec.Struct, frozen=True):
    """Response of the token endpoint."""

    id_token: str
    access_token: str = ""

    def __repr__(self) -> str:
        return "Given()"


class _Keys(msgspec.Struct, frozen=True):
    keys: tuple[dict[str, Any], ...]


class Provider:
    """Remembers what does not change. ``now`` is in milliseconds."""

    def __init__(
        self, settings: OidcSettings, now: Callable[[], int], send: SendRequest = send_request
    ) -> None:
        self.settings = settings
        self._now = now
        self._ask = send
        self._lock = asyncio.Lock()
        self._metadata: tuple[int, Metadata] | None = None
        self._keys: tuple[int, tuple[dict[str, Any], ...]] | None = None

    async def metadata(self) -> Metadata:
        """Raises :class:`Problem` when the provider is away, or is not what it should be."""
        async with self._lock:
            if self._metadata is None or self._now() - self._metadata[0] >= _FRESH:
                self._metadata = (self._now(), await self._fetch_metadata())
            return self._metadata[1]

    async def _fetch_metadata(self) -> Metadata:
        url = f"{self.settings.issuer.rstrip('/')}{_PAGE}"
        found = await self._get(url, Metadata, _JSON)
        if found.issuer != self.settings.issuer:
            raise _unusable("its page is about another issuer")
        endpoints = (found.authorization_endpoint, found.token_endpoint, found.jwks_uri)
        for endpoint in (*endpoints, *filter(None, (found.userinfo_endpoint,))):
            try:
                check_url(endpoint, "an address of the provider")
            except UsageError as error:
                raise _unusable(error.message) from None
        return found

    async def keys(self, token: str) -> tuple[dict[str, Any], ...]:
        """Return the issuer's keys, fetched again if the key of ``token`` is missing.

        Raises :class:`Problem` and :class:`TokenRefused`.
        """
        metadata, wanted = await self.metadata(), kid_of(token)
        async with self._lock:
            if self._keys is None or self._is_stale(*self._keys, wanted):
                found = await self._get(metadata.jwks_uri, _Keys, _JSON)
                self._keys = (self._now(), found.keys)
            return self._keys[1]

    def _is_stale(self, at: int, keys: tuple[dict[str, Any], ...], wanted: str) -> bool:
        age = self._now() - at
        known = any(key.get("kid", "") == wanted for key in keys)
        return age >= _FRESH or (not known and age >= _OFTEN)

    async def redeem(self, code: str, verifier: str, redirect: str) -> Given:
        """Exchange a code for tokens.

        Raises :class:`Problem`, and :class:`TokenRefused` for an unknown code.
        """
        metadata = await self.metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": verifier,
        }
        headers = {**_JSON, "Content-Type": "application/x-www-form-urlencoded"}
        self._introduce(metadata, form, headers)
        answer = await self._asked(
            "POST", metadata.token_endpoint, headers=headers, body=urlencode(form).encode()
        )
        if answer.status in (400, 401, 403):
            raise TokenRefused("the provider gives nothing for this code")
        return _decoded(answer, Given)

    def _introduce(self, metadata: Metadata, form: dict[str, str], headers: dict[str, str]) -> None:
        """Say who we are, in a way that the provider takes."""
        client, secret = self.settings.client_id, self.settings.client_secret
        ways = metadata.token_endpoint_auth_methods_supported
        if secret and "client_secret_basic" in ways:
            pair = f"{quote_plus(client)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
            return
        form["client_id"] = client
        if secret:
            form["client_secret"] = secret

    async def userinfo(self, access_token: str) -> Mapping[str, Any]:
        """More claims; none where the provider has no place for that. Raises :class:`Problem`."""
        metadata = await self.metadata()
        if not metadata.userinfo_endpoint or not access_token:
            return {}
        if not access_token.isascii() or not access_token.isprintable():
            raise _unusable("its access token is none")
        headers = {**_JSON, "Authorization": f"Bearer {access_token}"}
        return await self._get(metadata.userinfo_endpoint, dict[str, Any], headers)

    async def _get(self, url: str, kind: type[T], headers: Mapping[str, str]) -> T:
        return _decoded(await self._asked("GET", url, headers=headers), kind)

    async def _asked(self, method: str, url: str, **more: Any) -> Response:
        try:
            return await asyncio.to_thread(self._ask, method, url, **more)
        except Unreachable as error:
            raise _unusable(str(error)) from None


def _decoded(answer: Response, kind: type[T]) -> T:
    if answer.status != 200:
        raise _unusable(f"it answers {answer.status}")
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _unusable("its answer cannot be read") from None


def _unusable(why: str) -> Problem:
    return Problem(
        "unavailable",
        f"the OpenID provider cannot be used: {why}",
        hint="sign in with a password, or try again later",
        retry_after=10,
    )


_LONGEST: Final = 4_096


class OidcSettings(msgspec.Struct, frozen=True):
    """``issuer`` exactly as the provider spells it. Without a ``client_secret`` we are a public
    client. With ``tenant`` only accounts of that tenant can sign in so."""

    issuer: str
    client_id: str
    client_secret: str = ""
    tenant: str = ""

    def __repr__(self) -> str:
        return f"OidcSettings({self.issuer})"


def read_settings(
    issuer: str, client_id: str, secret_file: str = "", tenant: str = ""
) -> OidcSettings | None:
    """Return the settings, or None without any option. Raises :class:`UsageError`."""
    if not any((issuer, client_id, secret_file, tenant)):
        return None
    if not issuer or not client_id:
        raise UsageError(
            "an OpenID provider needs an issuer and a client id",
            hint="--oidc-issuer https://login.example.com --oidc-client-id reenact",
        )
    if "?" in check_url(issuer, "--oidc-issuer"):
        raise UsageError("--oidc-issuer has a query", hint="use it as the provider spells it")
    secret = _read_secret(Path(secret_file)) if secret_file else ""
    return OidcSettings(issuer, client_id, secret, tenant)


def _read_secret(path: Path) -> str:
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    if not text or len(text) > _LONGEST:
        raise UsageError(
            f"{path} contains no client secret", hint="use a file that contains only the secret"
        )
    return text
