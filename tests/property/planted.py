"""Secrets that the laws of redaction plant, put together from halves."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import orjson

PLANTED = "Zz9" + "Planted0Secret" + "Xx7"


WITNESS = "Planted0Secret"


SHAPED = [
    "sk-" + PLANTED,
    "sk-ant-" + PLANTED,
    "ghp_" + "A1b2" * 9 + WITNESS,
    "github_pat_" + "A1b2" * 9 + WITNESS,
    "xoxb" + "-123456789012-" + WITNESS,
    "AIza" + "Sy" + WITNESS + "A1b2c3d4" * 3,
    "hf_" + "A1b2c3d4" * 3 + WITNESS,
    "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIx" + WITNESS + "." + "sigsigsig0",
    "12345678" + ":AA" + "H" * 25 + WITNESS,
    "ya29" + ".a0" + PLANTED,
    "1//0" + "A1b2c3d4" * 3 + WITNESS,
    "SG." + "A1b2c3d4" * 3 + "." + PLANTED,
    "https://hooks.slack" + ".com/services/T0/B0/" + PLANTED,
    "-----BEGIN RSA PRIV" + "ATE KEY-----\nMIIE\n" + PLANTED + "\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIV" + "ATE KEY-----\n" + PLANTED,
]


NAMES = [
    "password",
    "api_key",
    "API-Key",
    "client[secret]",
    "accessToken",
    "X-Api-Key",
    "Set-Cookie",
]


BLANKS = ["", " ", "\t", "\n", "  "]


def encode(value: Any) -> bytes:
    """Canonical JSON as a recording has it."""
    return orjson.dumps(_marked(value), option=orjson.OPT_SORT_KEYS)


def _marked(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_marked(item) for item in value]
    return value
