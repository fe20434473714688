"""What the profile ``strict`` adds: e-mail addresses, random-looking strings, unusual headers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from math import log2

from reenact.policy.behind import Finding
from reenact.policy.names import normalise
from reenact.policy.patterns import late

__all__ = ["find_strict", "is_allowed_header", "is_protocol_id"]

_EMAIL = late(
    r"(?<![A-Za-z0-9._%+\-])[A-Za-z0-9._%+\-]{1,64}@(?:[A-Za-z0-9\-]{1,63}\.){1,8}[A-Za-z]{2,24}"
    r"(?![A-Za-z0-9\-])"
)
_RUN = late(r"(?<![A-Za-z0-9+/_=\-])[A-Za-z0-9+/_\-]{24,}={0,2}")
_KEY_BEFORE = late(r"[\"']([A-Za-z0-9_.\-]{1,60})\\*[\"'][ \t\r\n]{0,16}:[ \t\r\n]{0,16}\\*[\"']\Z")
_DIGEST_BEFORE = late(r"(?:sha-?(?:1|224|256|384|512)|md5)[:=\-]\\*\Z", re.IGNORECASE)
_UUID = late(r"(?:[a-z]{1,12}[_\-])?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z", re.IGNORECASE)
_HEX = late(r"[0-9a-fA-F]+\Z")
_PROTOCOL_PREFIX = late(
    r"(?:call|toolu|srvtoolu|chatcmpl|msg|resp|rs|fc|req|run|fp|thread|asst|step|item|batch|file)[_\-]"
)
_WORD = late(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]{1,8}")

_HEX_BITS = 3.0
_OTHER_BITS = 3.7
_LONGEST_WORDY = 0.75

_PROTOCOL_IDS = frozenset(
    """
    id callid toolcallid tooluseid itemid responseid previousresponseid messageid requestid runid
    threadid conversationid sessionid traceid spanid parentid eventid batchid fileid containerid
    signature thinkingsignature thoughtsignature encryptedcontent systemfingerprint fingerprint
    sessionkey idempotencykey xrequestid requestsid etag nonce cursor digest sha256 sha512 md5
    contenthash captureid data redactedthinking nextpagetoken pagetoken nexttoken continuationtoken
    """.split()
)

_ALLOWED_HEADERS = frozenset(
    """
    accept accept-charset accept-encoding accept-language accept-ranges access-control-allow-headers
    access-control-allow-methods access-control-allow-origin access-control-expose-headers
    access-control-max-age age allow alt-svc cache-control connection content-disposition
    content-encoding content-language content-length content-range content-type date expect expires
    host keep-alive last-modified link location mcp-protocol-version origin pragma range referrer-policy
    retry-after server server-timing strict-transport-security te trailer transfer-encoding upgrade
    user-agent vary via x-content-type-options x-frame-options x-ratelimit-limit-requests
    x-ratelimit-limit-tokens x-ratelimit-remaining-requests x-ratelimit-remaining-tokens
    x-ratelimit-reset-requests x-ratelimit-reset-tokens anthropic-version openai-processing-ms
    openai-version
    """.split()
)


def is_allowed_header(name: str) -> bool:
    """Whether a header of this name keeps its value under ``strict``."""
    return name.strip().lower() in _ALLOWED_HEADERS


def is_protocol_id(name: str) -> bool:
    """Whether values under this name are opaque by design, and must come back byte for byte."""
    return normalise(name) in _PROTOCOL_IDS


def find_strict(text: str) -> Iterator[Finding]:
    """E-mail addresses and random-looking strings of 24 characters and more."""
    if "@" in text:
        for match in _EMAIL.finditer(text):
            yield Finding(*match.span(), "email")
    for match in _RUN.finditer(text):
        if is_random(match[0]) and not _is_excused(text, match.start()):
            yield Finding(*match.span(), "entropy")


def is_random(run: str) -> bool:
    """Whether a run of base64 or hex characters carries more chance than words and paths do."""
    if _UUID.match(run) or _PROTOCOL_PREFIX.match(run):
        return False
    if _HEX.match(run):
        return _bits(run) >= _HEX_BITS and any(map(str.isdigit, run))
    words = sum(len(word) for word in _WORD.findall(run) if len(word) >= 4)
    mixed = any(map(str.isdigit, run)) and any(map(str.isalpha, run))
    return mixed and words < _LONGEST_WORDY * len(run) and _bits(run) >= _OTHER_BITS


def _is_excused(text: str, place: int) -> bool:
    before = max(0, place - 100)
    if _DIGEST_BEFORE.search(text, before, place):
        return True
    key = _KEY_BEFORE.search(text, before, place)
    return key is not None and is_protocol_id(key[1])


def _bits(run: str) -> float:
    """Shannon entropy in bits per character."""
    counts = Counter(run).values()
    return -sum(count / len(run) * log2(count / len(run)) for count in counts)
