"""ID tokens that are good, and one of each kind that somebody's library once took for good."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from reenact.server.auth.oidc.tokens import (
    Expected,
    Identity,
    TokenRefused,
    check_id_token,
    identity_of,
    kid_of,
)

NOW = 1_790_000_000
EXPECTED = Expected("https://login.example", "reenact", "nonce-1", NOW)
RSA, OTHER = (rsa.generate_private_key(65537, 2048) for _ in range(2))
SMALL = rsa.generate_private_key(65537, 1024)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def public(key: Any, kid: str, **more: Any) -> dict[str, Any]:
    kinds = {rsa.RSAPrivateKey: "RS256", ec.EllipticCurvePrivateKey: "ES256"}
    name = next((name for kind, name in kinds.items() if isinstance(key, kind)), "EdDSA")
    found = jwt.get_algorithm_by_name(name).to_jwk(key.public_key(), as_dict=True)
    return {**found, "kid": kid, "use": "sig", **more}


KEYS = (public(RSA, "rsa"), public(EC, "ec"), public(ED, "ed"))
SIGNED = {"RS256": (RSA, "rsa"), "ES256": (EC, "ec"), "EdDSA": (ED, "ed")}
CLAIMS: dict[str, Any] = {
    "iss": EXPECTED.issuer,
    "aud": EXPECTED.client_id,
    "sub": "user-7",
    "nonce": EXPECTED.nonce,
    "iat": NOW - 5,
    "exp": NOW + 300,
    "email": "ann@example.com",
    "email_verified": True,
}


def token(key: Any = RSA, algorithm: str = "RS256", kid: Any = "rsa", **changes: Any) -> str:
    """``header`` are further members of the header; a claim that is None is left out."""
    header = {"kid": kid, **changes.pop("header", {})}
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.PyJWS().encode(json.dumps(claims).encode(), key, algorithm, headers=header)


def by_hand(header: dict[str, Any], claims: dict[str, Any], secret: bytes | None) -> str:
    """With HMAC, or without any signature: what no library makes gladly."""
    parts = [encoded(json.dumps(one).encode()) for one in (header, claims)]
    text = ".".join(parts)
    signature = b"" if secret is None else hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{encoded(signature)}"


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def refused(text: str, keys: Any = KEYS, expected: Expected = EXPECTED) -> str:
    with pytest.raises(TokenRefused) as caught:
        check_id_token(text, keys, expected)
    return str(caught.value)


@pytest.mark.parametrize("algorithm", SIGNED)
def test_good_tokens_are_taken(algorithm: str) -> None:
    key, kid = SIGNED[algorithm]
    text = token(key, algorithm, kid)
    claims = check_id_token(text, KEYS, EXPECTED)
    assert kid_of(text) == kid
    assert identity_of(claims) == Identity("user-7", "ann@example.com")


def test_a_token_without_the_id_of_its_key_needs_a_set_in_which_there_is_no_doubt() -> None:
    text = jwt.encode(CLAIMS, RSA, "RS256")
    check_id_token(text, KEYS, EXPECTED)
    assert "does not belong to the issuer" in refused(text, (*KEYS, public(OTHER, "other")))


# Algorithms


def test_no_signature_is_none() -> None:
    text = by_hand({"alg": "none"}, CLAIMS, None)
    assert refused(text) == "it is not in compact form"
    assert refused(f"{text}AA") == "its algorithm is not allowed"


def test_the_public_key_is_no_shared_secret() -> None:
    pem = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = by_hand({"alg": "HS256", "kid": "rsa"}, CLAIMS, pem)
    assert refused(text) == "its algorithm is not allowed"


@pytest.mark.parametrize("secret", [b"", b"\0", b"reenact"])
def test_there_are_no_shared_secrets_at_all(secret: bytes) -> None:
    symmetric = {"kty": "oct", "kid": "oct", "k": encoded(secret), "alg": "HS256"}
    text = by_hand({"alg": "HS256", "kid": "oct"}, CLAIMS, secret)
    assert refused(text, (*KEYS, symmetric)) == "its algorithm is not allowed"


@pytest.mark.parametrize("algorithm", ["RS384", "RS512", "PS256"])
def test_other_algorithms_of_the_same_key_are_refused(algorithm: str) -> None:
    assert refused(token(algorithm=algorithm)) == "its algorithm is not allowed"


@pytest.mark.parametrize("algorithm", [None, "", "rs256", ["RS256"], "RS256\0", 1])
def test_what_is_no_algorithm_is_refused(algorithm: Any) -> None:
    text = by_hand({"alg": algorithm, "kid": "rsa"}, CLAIMS, b"x")
    assert refused(text) == "its algorithm is not allowed"


def test_a_key_is_for_its_own_algorithm() -> None:
    kept = (public(RSA, "rsa", alg="RS512"),)
    assert "does not belong to the issuer" in refused(token(), kept)


def test_a_key_of_another_kind_is_not_tried() -> None:
    text = token(EC, "ES256", "rsa")
    assert "does not belong to the issuer" in refused(text)


def test_a_key_for_encryption_signs_nothing() -> None:
    assert "does not belong to the issuer" in refused(token(), (public(RSA, "rsa", use="enc"),))


def test_a_small_key_is_refused() -> None:
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        text = token(SMALL, "RS256", "small")
    assert "too small" in refused(text, (public(SMALL, "small"),))


# Keys and headers


def test_a_token_does_not_bring_its_own_key() -> None:
    mine = public(OTHER, "rsa")
    text = token(OTHER, header={"jwk": mine})
    assert refused(text) == "its header has fields that are not allowed"


@pytest.mark.parametrize(
    "more",
    [
        {"jku": "https://attacker.example/keys"},
        {"x5u": "https://attacker.example/cert"},
        {"x5c": ["MIIB"]},
        {"crit": ["exp"], "exp": 1},
        {"crit": []},
        {"zip": "DEF"},
        {"cty": "JWT"},
    ],
)
def test_headers_with_rules_of_their_own_are_refused(more: dict[str, Any]) -> None:
    assert refused(token(header=more)) == "its header has fields that are not allowed"


def test_an_unencoded_payload_is_refused() -> None:
    text = by_hand({"alg": "RS256", "kid": "rsa", "b64": False}, CLAIMS, b"x")
    assert refused(text) == "its header has fields that are not allowed"


def test_a_token_of_another_type_is_refused() -> None:
    assert refused(token(header={"typ": "logout+jwt"})) == "its type is not allowed"


def test_a_key_that_nobody_knows_is_refused() -> None:
    assert "does not belong to the issuer" in refused(token(kid="another"))
    assert "does not belong to the issuer" in refused(token(), ())


def test_two_keys_with_one_id_are_none() -> None:
    assert "does not belong to the issuer" in refused(token(), (*KEYS, public(OTHER, "rsa")))


def test_the_key_of_somebody_else_is_refused() -> None:
    assert "signature" in refused(token(OTHER))


def test_a_private_key_in_the_set_is_not_used() -> None:
    private = {**jwt.get_algorithm_by_name("RS256").to_jwk(RSA, as_dict=True), "kid": "rsa"}
    assert "does not belong to the issuer" in refused(token(), (private,))


def test_a_damaged_key_is_refused() -> None:
    assert "cannot be used" in refused(token(), ({"kty": "RSA", "kid": "rsa", "n": "!", "e": 1},))


# Forms


def test_a_changed_claim_breaks_the_signature() -> None:
    header, _, signature = token().split(".")
    other = encoded(json.dumps({**CLAIMS, "email": "eve@example.com"}).encode())
    assert "signature" in refused(f"{header}.{other}.{signature}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c.d.e",
        "é.é.é",
        "e30.e30.",
        " e30.e30.e30",
        "e30.e30.e30\n",
        json.dumps({"payload": "e30", "signatures": []}),
        json.dumps({"payload": "e30", "signatures": [{"signature": ""}]}),
        "x" * 20_000,
    ],
)
def test_only_the_compact_form_is_taken(text: str) -> None:
    assert refused(text) == "it is not in compact form"


@pytest.mark.parametrize("header", ["e30", "W10", "bnVsbA", "ew", "_w", "a"])
def test_headers_that_are_none_are_refused(header: str) -> None:
    assert refused(f"{header}.e30.e30") in (
        "its header cannot be read",
        "its algorithm is not allowed",
    )


# Claims


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"iss": "https://login.example/"}, "another issuer"),
        ({"iss": "https://login.example.attacker.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"iss": ["https://login.example"]}, "another issuer"),
        ({"aud": "another"}, "its audience is a different client"),
        ({"aud": None}, "its audience is a different client"),
        ({"aud": []}, "its audience is a different client"),
        ({"aud": "reenact-2"}, "its audience is a different client"),
        ({"aud": ["reenact", "another"]}, "several audiences"),
        (
            {"aud": ["reenact", "another"], "azp": "another"},
            "authorized party is a different client",
        ),
        ({"azp": "another"}, "authorized party is a different client"),
        ({"nonce": None}, "nonce"),
        ({"nonce": "nonce-2"}, "nonce"),
        ({"nonce": ""}, "nonce"),
        ({"nonce": 1}, "nonce"),
        ({"exp": NOW - 60}, "expired"),
        ({"exp": None}, "how long"),
        ({"exp": str(NOW + 300)}, "is not a time"),
        ({"exp": True}, "is not a time"),
        ({"iat": None}, "how long"),
        ({"iat": NOW + 61}, "future"),
        ({"nbf": NOW + 61}, "future"),
    ],
)
def test_claims_that_are_not_for_us_now_are_refused(changes: dict[str, Any], why: str) -> None:
    assert why in refused(token(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW - 59},
        {"iat": NOW + 59},
        {"nbf": NOW - 1},
        {"aud": ["reenact"]},
        {"aud": ["reenact", "another"], "azp": "reenact"},
        {"azp": "reenact"},
    ],
)
def test_claims_at_the_edge_are_taken(changes: dict[str, Any]) -> None:
    check_id_token(token(**changes), KEYS, EXPECTED)


def test_an_empty_nonce_is_never_the_right_one() -> None:
    expected = Expected(EXPECTED.issuer, EXPECTED.client_id, "", NOW)
    assert "nonce" in refused(token(nonce=""), expected=expected)


@pytest.mark.parametrize("subject", [None, "", 7, "x" * 256])
def test_a_token_is_about_somebody(subject: Any) -> None:
    with pytest.raises(TokenRefused, match="no valid subject"):
        identity_of({**CLAIMS, "sub": subject})


@pytest.mark.parametrize(
    "changes",
    [
        {"email_verified": "true"},
        {"email_verified": 1},
        {"email_verified": False},
        {"email_verified": None},
        {"email": None},
        {"email": ["ann@example.com"]},
    ],
)
def test_an_address_that_is_not_verified_is_none(changes: dict[str, Any]) -> None:
    assert identity_of({**CLAIMS, **changes}) == Identity("user-7")
