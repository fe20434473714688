"""Rules of the profile ``strict``: e-mail addresses, card and bank account numbers, random-looking
strings, unusual headers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from math import log2

from reenact.policy.patterns import lazy_pattern
from reenact.policy.redaction.grammar import Finding
from reenact.policy.redaction.names import normalise

__all__ = ["begins_number", "find_strict", "is_allowed_header", "is_protocol_id", "number_rule"]

_EMAIL = lazy_pattern(
    r"(?<![A-Za-z0-9._%+\-])[A-Za-z0-9._%+\-]{1,64}@(?:[A-Za-z0-9\-]{1,63}\.){1,8}[A-Za-z]{2,24}"
    r"(?![A-Za-z0-9\-])"
)
_RUN = lazy_pattern(r"(?<![A-Za-z0-9+/_=\-])[A-Za-z0-9+/_\-]{24,}={0,2}")
_KEY_BEFORE = lazy_pattern(
    r"[\"']([A-Za-z0-9_.\-]{1,60})\\*[\"'][ \t\r\n]{0,16}:[ \t\r\n]{0,16}\\*[\"']\Z"
)
_DIGEST_BEFORE = lazy_pattern(r"(?:sha-?(?:1|224|256|384|512)|md5)[:=\-]\\*\Z", re.IGNORECASE)
_UUID = lazy_pattern(
    r"(?:[a-z]{1,12}[_\-])?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z", re.IGNORECASE
)
_HEX = lazy_pattern(r"[0-9a-fA-F]+\Z")
_PROTOCOL_PREFIX = lazy_pattern(
    r"(?:call|toolu|srvtoolu|chatcmpl|msg|resp|rs|fc|req|run|fp|thread|asst|step|item|batch|file)[_\-]"
)
_WORD = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]{1,8}")

_CARD = lazy_pattern(r"(?<![0-9A-Za-z.])[2-9](?:[ \-]?[0-9]){12,18}(?![0-9A-Za-z])", re.ASCII)
_IBAN = lazy_pattern(r"(?<![0-9A-Za-z])[A-Z]{2}[0-9]{2}(?:[ \-]?[0-9A-Z]){11,30}", re.ASCII)
_BEGUN = lazy_pattern(
    r"(?<![0-9A-Za-z])(?:[A-Z]{2}[0-9]{2}(?:[ \-]?[0-9A-Z]){0,30}|[0-9](?:[ \-]?[0-9]){0,18})[ \-]?\Z",
    re.ASCII,
)
_LONGEST_NUMBER = 80
_NOT_ALNUM = lazy_pattern(r"[^0-9A-Za-z]+")
_CARD_LENGTHS = range(13, 20)
# Characters of an account number, by country, as the registry of ISO 13616 has them.
_IBAN_LENGTHS = {
    country: int(length)
    for length, countries in (
        entry.split(":")
        for entry in """
        15:NO 16:BE 18:DK,FK,FI,FO,GL,NL,SD 19:MK,SI 20:AT,BA,EE,KZ,LT,LU,MN,XK 21:CH,HR,LI,LV
        22:BG,BH,CR,DE,GB,GE,IE,ME,RS,VA 23:AE,GI,IL,IQ,OM,SO,TL
        24:AD,CZ,DZ,ES,MD,PK,RO,SA,SE,SK,TN,VG 25:AO,CV,GW,LY,MZ,PT,ST 26:IS,TR
        27:BF,BI,CF,CG,CM,DJ,FR,GA,GQ,GR,IT,KM,MC,MG,MR,SM,TD 28:AL,AZ,BJ,BY,CI,CY,DO,GT,HN,HU,LB
        28:MA,ML,NE,NI,PL,PS,SN,SV,TG 29:BR,EG,QA,UA 30:JO,KW,MU,YE 31:MT,SC 32:LC 33:RU
        """.split()
    )
    for country in countries.split(",")
}

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
    """Return whether a header of this name keeps its value under ``strict``."""
    return name.strip().lower() in _ALLOWED_HEADERS


def is_protocol_id(name: str) -> bool:
    """Return whether values under this name are opaque by design and must come back byte for byte."""
    return normalise(name) in _PROTOCOL_IDS


def find_strict(text: str) -> Iterator[Finding]:
    """E-mail addresses, card and account numbers, random-looking strings of 24 characters and more."""
    if "@" in text:
        for match in _EMAIL.finditer(text):
            yield Finding(*match.span(), "email")
    for match in _CARD.finditer(text):
        if _is_card(match[0]) and not _is_excused(text, match.start()):
            yield Finding(*match.span(), "card")
    for match in _IBAN.finditer(text):
        end = _iban_end(match[0])
        if end:
            yield Finding(match.start(), match.start() + end, "iban")
    for match in _RUN.finditer(text):
        if is_random(match[0]) and not _is_excused(text, match.start()):
            yield Finding(*match.span(), "entropy")


def is_random(run: str) -> bool:
    """Return whether a run of base64 or hex characters has more entropy than words and paths."""
    if _UUID.match(run) or _PROTOCOL_PREFIX.match(run):
        return False
    if _HEX.match(run):
        return _bits(run) >= _HEX_BITS and any(map(str.isdigit, run))
    words = sum(len(word) for word in _WORD.findall(run) if len(word) >= 4)
    mixed = any(map(str.isdigit, run)) and any(map(str.isalpha, run))
    return mixed and words < _LONGEST_WORDY * len(run) and _bits(run) >= _OTHER_BITS


def begins_number(text: str) -> bool:
    """Return whether the end of ``text`` can be the start of a card or account number in groups."""
    return _BEGUN.search(text, max(0, len(text) - _LONGEST_NUMBER)) is not None


def number_rule(value: int) -> str | None:
    """The rule that makes this number a secret under ``strict``, if one does."""
    text = str(value)
    return "card" if len(text) in _CARD_LENGTHS and text[0] != "1" and _is_card(text) else None


def _is_card(written: str) -> bool:
    """Return whether the last digit is the right check digit (Luhn)."""
    digits = [int(char) for char in reversed(written) if char.isdigit()]
    doubled = (divmod(2 * digit, 10) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(map(sum, doubled))) % 10 == 0 and len(set(digits)) > 1


def _iban_end(written: str) -> int:
    """Return the end of the account number at the start of ``written``; 0 if there is none."""
    length = _IBAN_LENGTHS.get(written[:2], 0)
    place = count = 0
    while place < len(written) and count < length:
        count += written[place].isalnum()
        place += 1
    plain = _NOT_ALNUM.sub("", written[:place])
    if not length or len(plain) != length or written[place : place + 1].isalnum():
        return 0
    digits = "".join(str(int(char, 36)) for char in plain[4:] + plain[:4])
    return place if int(digits) % 97 == 1 else 0


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
