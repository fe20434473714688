"""Settings of the OpenID provider: the options ``reenact serve --oidc-…``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from reenact.errors import UsageError
from reenact.server.http_client import check_url

__all__ = ["OidcSettings", "read_settings"]

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
            f"there is no client secret in {path}", hint="a file with the secret and nothing else"
        )
    return text
