"""Verification of ID tokens.

Accepted are the compact form, three algorithms, and keys of the issuer's own set. A token cannot
choose its key location or its verification rules.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jwt
import msgspec

__all__ = [
    "ALGORITHMS",
    "Expected",
    "Identity",
    "TokenRefused",
    "check_id_token",
    "identity_of",
    "kid_of",
]

ALGORITHMS: Final = {"RS256": ("RSA", ""), "ES256": ("EC", "P-256"), "EdDSA": ("OKP", "Ed25519")}
"""Each with the one kind of key that goes with it. There is none with a shared secret."""
_HARMLESS: Final = frozenset({"alg", "kid", "typ"})
"""Members of a header. All others (``jwk``, ``jku``, ``x5u``, ``x5c``, ``crit``, ``b64``, …) would
change what a signature means or where its key comes from."""
_TYPES: Final = frozenset({"", "jwt"})
_COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_LARGEST: Final = 16 << 10
_SKEW: Final = 60
"""Seconds that clocks may differ."""
_SUBJECT: Final = 255
_SMALLEST_RSA: Final = 2048


class TokenRefused(Exception):
    """An invalid ID token. The message has the reason without the token's content."""


class Expected(msgspec.Struct, frozen=True):
    """``now`` is in seconds."""

    issuer: str
    client_id: str
    nonce: str
    now: float


class Identity(msgspec.Struct, frozen=True):
    """Identity from the provider. ``email`` is empty if the provider has not verified one."""

    subject: str
    email: str = ""


def kid_of(token: str) -> str:
    """The id of its key; empty for none. Raises :class:`TokenRefused`."""
    return str(_header(token).get("kid", ""))


def check_id_token(
    token: str, keys: Sequence[Mapping[str, Any]], expected: Expected
) -> Mapping[str, Any]:
    """The claims of a token that is good. Raises :class:`TokenRefused`."""
    header = _header(token)
    algorithm = header["alg"]
    key = _key(header, algorithm, keys)
    try:
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            options={
                "verify_signature": True,
                # By our own clock, below.
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "verify_aud": False,
                "verify_iss": False,
                "verify_sub": False,
                "verify_jti": False,
            },
        )
    except jwt.PyJWTError:
        raise TokenRefused("its signature is not from the issuer") from None
    _check_audience(claims, expected)
    _check_times(claims, expected.now)
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not _same(nonce, expected.nonce):
        raise TokenRefused("its nonce does not match")
    return claims


def identity_of(claims: Mapping[str, Any]) -> Identity:
    """Return the identity of verified claims. Raises :class:`TokenRefused` without a subject."""
    subject, email = claims.get("sub"), claims.get("email")
    if not isinstance(subject, str) or not 0 < len(subject) <= _SUBJECT:
        raise TokenRefused("it has no valid subject")
    verified = claims.get("email_verified") is True and isinstance(email, str)
    return Identity(subject, str(email) if verified else "")


def _header(token: str) -> dict[str, Any]:
    if len(token) > _LARGEST or not _COMPACT.fullmatch(token):
        raise TokenRefused("it is not in compact form")
    text = token.partition(".")[0]
    try:
        header = msgspec.json.decode(
            urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=dict[str, Any]
        )
    except (Base64Error, ValueError, msgspec.DecodeError):
        raise TokenRefused("its header cannot be read") from None
    if header.keys() - _HARMLESS:
        raise TokenRefused("its header has fields that are not allowed")
    if not isinstance(header.get("alg"), str) or header["alg"] not in ALGORITHMS:
        raise TokenRefused("its algorithm is not allowed")
    if str(header.get("typ", "")).lower() not in _TYPES:
        raise TokenRefused("its type is not allowed")
    if not isinstance(header.get("kid", ""), str):
        raise TokenRefused("its key id is not a string")
    return header


def _key(header: Mapping[str, Any], algorithm: str, keys: Sequence[Mapping[str, Any]]) -> jwt.PyJWK:
    """The one key of the set that it can be."""
    fitting = [key for key in keys if _fits(key, algorithm)]
    if "kid" in header:
        fitting = [key for key in fitting if key.get("kid") == header["kid"]]
    if len(fitting) != 1:
        raise TokenRefused("its key does not belong to the issuer")
    try:
        key = jwt.PyJWK(dict(fitting[0]), algorithm=algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        raise TokenRefused("its key cannot be used") from None
    if algorithm == "RS256" and key.key.key_size < _SMALLEST_RSA:
        raise TokenRefused("its key is too small")
    return key


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    kind, curve = ALGORITHMS[algorithm]
    return (
        key.get("kty") == kind
        and (not curve or key.get("crv") == curve)
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and "d" not in key
    )


def _check_audience(claims: Mapping[str, Any], expected: Expected) -> None:
    if claims.get("iss") != expected.issuer:
        raise TokenRefused("it is of another issuer")
    audience, party = claims.get("aud"), claims.get("azp")
    audiences = audience if isinstance(audience, list) else [audience]
    if expected.client_id not in audiences:
        raise TokenRefused("its audience is a different client")
    if len(audiences) > 1 and party is None:
        raise TokenRefused("it has several audiences but no authorized party")
    if party is not None and party != expected.client_id:
        raise TokenRefused("its authorized party is a different client")


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    expires, issued = _number(claims, "exp"), _number(claims, "iat")
    if expires is None or issued is None:
        raise TokenRefused("it does not say how long it holds")
    before = _number(claims, "nbf")
    if now >= expires + _SKEW:
        raise TokenRefused("it has expired")
    if issued > now + _SKEW or (before is not None and before > now + _SKEW):
        raise TokenRefused("it is from the future")


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TokenRefused(f"its {name} is not a time")
    return value


def _same(one: str, other: str) -> bool:
    return bool(other) and hmac.compare_digest(
        one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
    )
