"""Names of keys, headers, fields, parameters, flags and variables whose values are secret.

A name is secret when it *ends* in one of the stems (``OPENAI_API_KEY``, ``client[secret]``,
``x-amz-security-token``), independent of case and separators, unless it is a listed exception. The
gate and the search for names inside text use the same stems, so the three cannot drift apart.

Some names are ambiguous: ``"token": "hello"``, ``"cookie": "chocolate chip"``, ``"pwd": "/home/ada"``.
Their value is harmless only if it consists of a few short words, or is a path, a keyboard shortcut,
a small number or an identifier of a known form. Every other value under a secret name is redacted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from typing import NamedTuple

import msgspec

from reenact.policy.patterns import lazy_pattern

__all__ = [
    "CASELESS",
    "TAIL",
    "Names",
    "Stem",
    "is_always_sent",
    "is_authorization_code",
    "is_cookie",
    "is_harmless",
    "is_log_probability",
    "names_with",
    "normalise",
]

CASELESS = re.IGNORECASE | re.ASCII
"""Flags of every pattern that the gate repeats: without ASCII, ``K`` would also be KELVIN SIGN."""

_GAP = r"[-_. +\[\]]{0,2}"
TAIL = r"[-_. +\[\]0-9]{0,6}"
"""Text that can follow the stem inside the name: ``password_2``, ``user[password][0]``."""

# Wider than the above and simpler, which hyperscan compiles much faster; %20 and %2b are blanks.
_GATE_GAP = r"[-_. +\[\]%02b]{0,6}"
_GATE_TAIL = r"[-_. +\[\]%02b0-9]*"
# Before a word of a name, which may follow an escape.
_GATE_WORD_EDGE = r"(?:^|[^A-Za-z]|\\[nrtbf]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|%[0-9A-Fa-f]{2})"
_LOOSE_GAP = r"[-_. +\[\]%02b]*"

_NOT_ALNUM = lazy_pattern(r"[^0-9A-Za-z]+")
_CACHE_LIMIT = 4096


class Stem(msgspec.Struct, frozen=True):
    """The end of a secret name. ``needs`` are lower-case texts without which it cannot match; the first
    stands ``before`` characters behind its start."""

    needs: tuple[str, ...]
    pattern: str
    gap: str = _GATE_GAP
    before: int = 0
    is_word: bool = False
    """Is it a word of its own in the name?"""
    ends: tuple[str, ...] = ()
    """Possible ends of the last word of the name, without digits; empty if unknown."""

    def gate(self) -> str:
        """The pattern with its tail, for text that may be percent-encoded."""
        loose = self.pattern.replace(_GAP, self.gap)
        if self.is_word:
            loose = f"{_GATE_WORD_EDGE}(?i:{loose})|[a-z0-9]{loose.title()}"
        return f"(?:{loose}){_GATE_TAIL}"


def _stem(words: str, plural: str = "", *, then: Sequence[str] = ()) -> Stem:
    """``"api key"`` matches ``apikey``, ``api_key``, ``API-Key`` …; one of ``then`` may follow it."""
    parts = words.split()
    pattern = _GAP.join(map(re.escape, parts)) + plural
    if then:
        pattern += f"(?:{_GAP}(?:{'|'.join(_GAP.join(more.split()) for more in then)}))?"
    ends = {parts[-1], parts[-1] + "s" * bool(plural), *(more.split()[-1] for more in then)}
    return Stem(tuple(parts), pattern, ends=tuple(sorted(ends)))


def _stems(listed: str) -> Iterator[Stem]:
    """Return the stems of a list with commas, in which ``s?`` stands for a plural."""
    for words in listed.split(","):
        singular = words.strip().removesuffix(" s?")
        yield _stem(singular, "s?" if words.rstrip().endswith(" s?") else "")


_STEMS = (
    _stem("pass word", "s?", then="confirmation confirm again hash verify old new".split()),
    *_stems("passwd, pwd, pass phrase"),
    _stem("secret", "s?", then=("value", "text", "string", "key", "access key")),
    _stem("token", then=("value", "secret")),
    *_stems(
        """
        access tokens, refresh tokens, auth tokens, session tokens, api tokens, api key s?,
        access key s?
        """
    ),
    _stem("private key", "s?", then=("pem", "data")),
    *_stems(
        """
        account key, auth key, deploy key, encryption key, functions key, license key,
        master key, service role key, shared key, signing key, ssh key, subscription key,
        webhook url, connection string, credential s?, creds, authorization, basic auth,
        cookie s?, csrf, xsrf, code verifier, device code, client assertion, amz signature,
        goog signature, passcode, card number, credit card, security code, verification code s?,
        recovery code s?, backup code s?, auth code, authorization code, confirmation code,
        otp code, mfa code, sms code, totp code, saml response, saml assertion
        """
    ),
    _stem("mnemonic", then=("phrase",)),
    *_stems(
        """
        seed phrase, recovery phrase, session id, sessid, x session, gitlab session,
        contribsys com
        """
    ),
    Stem(("-pat",), "-pat", ends=("pat",)),
    Stem(("_pat",), "_pat", ends=("pat",)),
)

# Too short to be trusted at the end of a longer word: they are a word of the name, as in `db_pass`
# and `dbPass`, but not in `compass`.
_WORDS = tuple(
    Stem((word,), word, is_word=True, ends=(word,))
    for word in ("pass", "pw", "pin", "cvv", "cvc", "cvv2", "cvc2", "sid", "auth")
)

# Too short to be trusted at the end of a longer name.
_WHOLE = (_stem("bearer"), _stem("dpop"), _stem("jwt"), _stem("otp"), _stem("totp"))

_NOT_SECRET = frozenset(
    """
    tokentype sessionkey idempotencykey idempotencytoken clientrequesttoken progresstoken
    cancellationtoken partialresulttoken workdonetoken googleapplicationcredentials oldpwd
    accesscontrolallowcredentials credentials_mode acceptcookies nocookies mcpsessionid
    firstpass secondpass singlepass multipass allpass lowpass highpass bandpass renderpass
    """.split()
)

# Names that stand before a secret in one program and before a word, a place or a count in another.
_AMBIGUOUS = frozenset(
    """
    token cookie cookies credential credentials accesskey pwd pass pw pin sid auth sessionid mnemonic
    """.split()
)
_AMBIGUOUS_WORDS = ("pin", "sid", "auth", "sessionid")
_IDENTIFIERS = ("sid", "sessionid")
"""Names of identifiers, which are often not secret and distinguish requests."""

# Objects whose values are all sent with a request, where a word can be a password.
_ALWAYS_SENT = ("headers", "trailers", "query", "querystring", "params", "form", "cookies", "env")
_ALWAYS_SENT_WHOLE = frozenset({"environ", "environment", "header", "postdata"})

_OAUTH_NAMES = frozenset({"granttype", "redirecturi", "codeverifier", "state", "iss"})

# A token that is a place in a list, a unit of text, or a price, not a credential. No stem ends in
# a path, and to know that without a pattern saves every process one.
_NOT_SECRET_ENDINGS = (
    "path",
    *(
        f"{word}token"
        for word in """
        page next prev previous continuation sync pagination cursor skip resume start starting end
        stop eos bos eot pad unk sep cls mask special image audio video first last max min num per
        each every by top input output prompt completion cached reasoning sampled decoded text
        """.split()
    ),
)

_COOKIE_HEADERS = frozenset({"cookie", "setcookie", "cookie2", "setcookie2"})


def normalise(name: str) -> str:
    """Lower-case, letters and digits of ASCII only."""
    return _NOT_ALNUM.sub("", name).lower()


def is_cookie(name: str) -> bool:
    """Return whether the value has cookie syntax, so that its names and attributes can stay."""
    return normalise(name) in _COOKIE_HEADERS


def is_always_sent(name: str) -> bool:
    """Return whether the fields of the object ``name`` are headers, parameters, cookies or
    variables.
    """
    plain = normalise(name)
    return plain.endswith(_ALWAYS_SENT) or plain in _ALWAYS_SENT_WHOLE


def is_authorization_code(name: str, beside: Iterable[str]) -> bool:
    """Return whether ``name`` is the ``code`` of OAuth, which the neighbouring names reveal."""
    return normalise(name) == "code" and not _OAUTH_NAMES.isdisjoint(map(normalise, beside))


def is_log_probability(name: str) -> bool:
    """Return whether a ``token`` next to this name is a piece of text."""
    return normalise(name).startswith("logprob")


class Names:
    """The decision, with the caller's own names. Holds a bounded cache; safe to share."""

    def __init__(self, secret: Iterable[str] = (), not_secret: Iterable[str] = ()) -> None:
        own = sorted({normalise(name) for name in secret} - {""})
        self._own = frozenset(own)
        self._not_secret = frozenset(map(normalise, not_secret))
        self.stems = _STEMS + _WORDS + _WHOLE + tuple(map(_spelled, own))
        """Every stem in force; a secret name always ends in one of them plus ``TAIL``."""
        self._cache: dict[str, bool] = {}
        self._excuses = True

    def without_excuses(self) -> Names:
        """Return these names without ambiguous ones, except for identifiers."""
        other = copy(self)
        other._excuses = False
        return other

    def secret(self, name: str) -> bool:
        """Return whether values under ``name`` are secret."""
        known = self._cache.get(name)
        if known is None:
            if len(self._cache) >= _CACHE_LIMIT:
                self._cache.clear()
            known = self._cache[name] = self._decide(name)
        return known

    def ambiguous(self, name: str) -> bool:
        """Return whether a value under the secret ``name`` can also be a word, a path or a count."""
        plain = normalise(name)
        if plain in self._own or not (self._excuses or plain.endswith(_IDENTIFIERS)):
            return False
        return plain in _AMBIGUOUS or plain.endswith(_AMBIGUOUS_WORDS)

    def _decide(self, name: str) -> bool:
        low = name.lower()
        # Most names have no such word in them, and then no pattern needs to be compiled.
        fitting = tuple(
            stem
            for stem in self.stems
            if stem.needs[0] in low and all(need in low for need in stem.needs)
        )
        if not fitting:
            return False
        plain = normalise(name)
        if plain in self._not_secret or (plain not in self._own and _only_looks_it(name, plain)):
            return False
        end = name[-120:]
        endings = _endings_of(fitting)
        if not endings.any.search(end):
            return False
        if plain in self._own:
            return True
        return bool(
            endings.default.search(end)
            or endings.whole.fullmatch(plain)
            or endings.word.search(end)
        )


class _Endings(NamedTuple):
    """Patterns of names that end in one of some stems: any of these, or one of a built-in group."""

    any: re.Pattern[str]
    default: re.Pattern[str]
    whole: re.Pattern[str]
    word: re.Pattern[str]


@lru_cache(maxsize=1_024)
def _endings_of(stems: tuple[Stem, ...]) -> _Endings:
    """Return the patterns of ``stems``, which are the only ones that can match a name.

    Compiling the patterns of all stems takes as long as starting the interpreter, and nearly every
    environment has a variable whose name could be secret.
    """

    def one_of(group: frozenset[Stem]) -> str:
        return "|".join(stem.pattern for stem in stems if stem in group) or _NOTHING

    words = one_of(_WORD_STEMS)
    return _Endings(
        lazy_pattern(rf"(?:{one_of(frozenset(stems))}){TAIL}\Z", CASELESS),
        lazy_pattern(rf"(?:{one_of(_DEFAULT_STEMS)}){TAIL}\Z", CASELESS),
        lazy_pattern(rf"(?:{one_of(_WHOLE_STEMS)})[0-9]*\Z", CASELESS),
        lazy_pattern(
            rf"(?:(?i:(?:\A|[^A-Za-z])(?:{words}))|[a-z0-9](?:{words.title()})){TAIL}\Z", re.ASCII
        ),
    )


_NOTHING = r"(?!)"
_DEFAULT_STEMS, _WORD_STEMS, _WHOLE_STEMS = map(frozenset, (_STEMS, _WORDS, _WHOLE))


@lru_cache(maxsize=16)
def names_with(secret: tuple[str, ...], not_secret: tuple[str, ...]) -> Names:
    """The decision with these names, shared: sessions come one after the other, and ask the same."""
    return Names(secret, not_secret)


def _only_looks_it(name: str, plain: str) -> bool:
    """Asked before any pattern is compiled: every process has the variables ``PWD`` and ``PATH``."""
    return plain in _NOT_SECRET or plain.endswith(_NOT_SECRET_ENDINGS) or name == "PWD"


def _spelled(plain: str) -> Stem:
    """A caller's name, with separators allowed anywhere: ``xcorppin`` is also ``x-Corp-Pin``."""
    # With a counted gap before every letter the pattern would be too large for hyperscan.
    return Stem((plain[:1],), _GAP.join(map(re.escape, plain)), _LOOSE_GAP)


_LONGEST = 120
_MOST_WORDS = 3
# One case, or a capital letter first: `Hello`, `NONE`. Mixed case is how random texts look.
_PROSE = lazy_pattern(
    r"(?:[a-z]{1,12}|[A-Z][a-z]{0,11}|[A-Z]{1,12})(?:[ _-](?:[a-z]{1,12}|[A-Z][a-z]{0,11}))*"
)
_WORD = lazy_pattern(r"[A-Za-z]+")
_VOWEL = lazy_pattern(r"[aeiouyAEIOUY]")
_CONSONANTS = lazy_pattern(r"[^aeiouyAEIOUY]{5}")
_SHORTEST_UNSPOKEN = 4
"""Letters: a shorter word needs no vowel (``GET``, ``x``, ``css``)."""
_PATH = lazy_pattern(
    r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\]+(?:\.?[A-Za-z][A-Za-z._ -]{0,30}[0-9]{0,4}|[0-9]{1,6}|\.{1,2})){1,20}[/\\]?"
)
_SHORTCUT = lazy_pattern(
    r"(?:(?:ctrl|control|alt|option|shift|cmd|command|meta|super|win)[ ]?[+-][ ]?){1,4}[!-~]{1,10}",
    re.IGNORECASE | re.ASCII,
)
_UUID = lazy_pattern(r"(?:[a-z]{1,12}[_-])?[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_TWILIO = lazy_pattern(r"[A-Z]{2}[0-9a-f]{32}")
_NUMBERED = lazy_pattern(r"[a-z]{1,12}-[0-9]{1,4}")
_HARMLESS_IDENTIFIERS = (_UUID, _TWILIO, _NUMBERED)
_ID_NAMES = ("sid", "sessionid")
_FRACTION = lazy_pattern(r"-?[0-9]{1,4}\.[0-9]{1,20}")
_LONGEST_COUNT = {"pin": 2}
# Short for password: a word may be one, but for the words that tell how a test ended.
_PASSWORDS = frozenset({"pass", "pw", "pwd"})
_OUTCOMES = frozenset("yes no ok true false none null pass passed fail failed skip skipped".split())


def is_harmless(name: str, value: str) -> bool:
    """Return whether ``value``, under the ambiguous ``name``, is evidently not a secret."""
    if not value or len(value) > _LONGEST:
        return False
    plain = normalise(name)
    if value.isdigit():
        return len(value) <= _LONGEST_COUNT.get(plain[-3:], 3)
    if plain.endswith(_ID_NAMES) and any(one.fullmatch(value) for one in _HARMLESS_IDENTIFIERS):
        return True
    if _FRACTION.fullmatch(value) or _PATH.fullmatch(value):
        return True
    if plain in _PASSWORDS:
        return value.lower() in _OUTCOMES
    return _SHORTCUT.fullmatch(value) is not None or _is_words(value)


def _is_words(value: str) -> bool:
    if _PROSE.fullmatch(value) is None:
        return False
    words = _WORD.findall(value)
    return len(words) <= _MOST_WORDS and all(map(_is_spoken, words))


def _is_spoken(word: str) -> bool:
    """Return whether a word is pronounceable: random letters have few vowels, or many consonants in
    a row.
    """
    if len(word) < _SHORTEST_UNSPOKEN:
        return True
    return _VOWEL.search(word) is not None and _CONSONANTS.search(word) is None
