"""Credentials in the arguments of well-known programs: ``curl -u me:…``, ``mysql -p…``, ``redis-cli -a …``.

Flags with telling names (``--password …``) are found by name. This table is about those that only the
program gives a meaning to. A command is recognised as a list of arguments and as a line for a shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from reenact.policy.behind import Finding, is_closing_quote
from reenact.policy.literals import string
from reenact.policy.patterns import late
from reenact.policy.searched import ClueIndex, Searched, clue_of
from reenact.policy.shapes import GATE_EDGE

__all__ = [
    "GATE_FLAG",
    "PROGRAMS",
    "Program",
    "argument_credentials",
    "command_credentials",
    "gate_program",
]


class Program(msgspec.Struct, frozen=True):
    """``secrets`` are flags before a secret, ``logins`` flags before ``user:password``.

    ``glued``: a secret follows a short flag without a blank, and never behind one. ``within``: only this
    subcommand takes one (``docker run -p`` is about ports).
    """

    secrets: tuple[str, ...] = ()
    logins: tuple[str, ...] = ()
    glued: bool = False
    within: str = ""

    def flag(self, word: str) -> str:
        """The flag of the table that ``word`` is, or ends in (``-sSu``); empty for others."""
        known = self.secrets + self.logins
        if word in known:
            return word
        last = "-" + word[-1:]
        is_cluster = word[:1] == "-" and word[1:].isalpha() and not self.glued
        return last if is_cluster and last in known else ""


def _programs() -> dict[str, Program]:
    curl = Program(logins=("-u", "-U", "--user", "--proxy-user"))
    secret = Program(secrets=("-p",))
    login = Program(secrets=("-p",), within="login")
    mysql = Program(secrets=("-p",), glued=True)
    capital = Program(secrets=("-P",))
    redis = Program(secrets=("-a",))
    ldap = Program(secrets=("-w",))
    return {
        **dict.fromkeys(("curl", "wget"), curl),
        **dict.fromkeys(("docker", "podman", "buildah", "skopeo", "nerdctl", "helm"), login),
        **dict.fromkeys(
            """
            mongo mongosh mongodump mongorestore mongoexport mongoimport sshpass cqlsh twine
            """.split(),
            secret,
        ),
        **dict.fromkeys(
            """
            mysql mysqldump mysqladmin mysqlimport mysqlsh mysqlbinlog mariadb mariadb-dump
            mariadb-admin 7z 7za 7zz unrar
            """.split(),
            mysql,
        ),
        **dict.fromkeys(("sqlcmd", "unzip", "mosquitto_pub", "mosquitto_sub", "ipmitool"), capital),
        **dict.fromkeys(("redis-cli", "valkey-cli", "keydb-cli"), redis),
        **dict.fromkeys(
            ("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldappasswd"), ldap
        ),
        "keytool": Program(secrets=("-storepass", "-keypass", "-srcstorepass", "-deststorepass")),
        "openssl": Program(secrets=("-pass", "-passin", "-passout", "-k", "-K")),
        "smbclient": Program(logins=("-U", "--user")),
        "lftp": Program(logins=("-u", "--user")),
    }


PROGRAMS = _programs()
_WORDS = "|".join(re.escape(name) for name in sorted(PROGRAMS, key=len, reverse=True))
_PROGRAM = late(
    # The colour codes of terminals are no part of a name.
    r"(?:(?<![A-Za-z0-9_.\-])|(?<=\[[0-9]m)|(?<=\[[0-9]{2}m)|(?<=;[0-9]m)|(?<=;[0-9]{2}m))"
    rf"({_WORDS})(?:\.exe)?(?=[ \t]|\\*[\"'])",
    re.IGNORECASE | re.ASCII,
)
_BY_CLUE = ClueIndex((clue_of(name, leads=True, ends_word=True), name) for name in PROGRAMS)
GATE_FLAG = r"(?:[ \t\n\"']|\\[nt]|%(?:09|0a|2[027]))-[a-z-]{0,12}[uapwk]"
"""What the gate finds behind the program. Each flag of the table has one of these letters."""

_LONGEST = 4_000
_BEFORE_FLAG = " \t\n\"'"
# A flag, and what separates it from its value: nothing, blanks, an equals sign, or the end of an
# item in a list of arguments.
_FLAG = late(
    r"(?<=[ \t\n\"'])(?P<flag>--?[A-Za-z][A-Za-z\-]*)"
    r"(?P<between>=|[ \t]{1,8}(?:\\\r?\n[ \t]{0,40})?|\\*[\"'][ \t\r\n]{0,40},[ \t\r\n]{0,40}(?=\\*[\"'])|)",
    re.ASCII,
)
_BARE = late(r"[^\"'`<>|;&\\\x00-\x20\x7f]+")
_TEMPLATE = late(r"(?:[\w.%:,@-]*)(?:\$\{?[A-Za-z_]|\$\(|\{\{|<)[^\"']*", re.ASCII)
_SEPARATORS = (":", ",", "%")


def gate_program(name: str) -> str:
    """The pattern by which the gate finds the program ``name``."""
    return rf"{GATE_EDGE}{re.escape(name)}(?:\.exe)?[ \t\"'\\%]"


def argument_credentials(words: Sequence[str]) -> dict[int, tuple[int, int]]:
    """Where the credentials are in a list of arguments: the index of the word, and the part of it."""
    found: dict[int, tuple[int, int]] = {}
    program: Program | None = None
    for index, word in enumerate(words):
        named = _program_of(word)
        if named is not None and not (named.within and named.within not in words[index:]):
            program = named
        elif program is not None:
            spot = _credential(program, words[index - 1], word)
            if spot is not None:
                found[index] = spot
    return found


def _program_of(word: str) -> Program | None:
    if len(word) > _LONGEST:
        return None
    name = word.replace("\\", "/").rpartition("/")[2].lower()
    return PROGRAMS.get(name.removesuffix(".exe"))


def _credential(program: Program, before: str, word: str) -> tuple[int, int] | None:
    """The part of ``word`` that ``program`` takes for a credential, ``before`` being the word before."""
    if word.startswith("-"):
        return _glued(program, word)
    flag = program.flag(before)
    if flag in program.secrets and not program.glued:
        return None if not word or _TEMPLATE.fullmatch(word) else _value_of(word)
    return (0, len(word)) if flag in program.logins and _is_login(word) else None


def _value_of(word: str) -> tuple[int, int] | None:
    """Behind ``pass:``, where openssl is told the password itself; a file is none."""
    kind, colon, rest = word.partition(":")
    if colon and kind in ("env", "file", "fd"):
        return None
    start = len(word) - len(rest) if colon and kind == "pass" else 0
    return (start, len(word)) if len(word) > start else None


def _glued(program: Program, word: str) -> tuple[int, int] | None:
    """The part of ``word``, a flag and its value in one, that is a credential."""
    flag, equals, value = word.partition("=")
    start = len(flag) + 1
    if not word.startswith("--"):
        flag, value, start = word[:2], word[2:], 2
    elif not equals:
        return None
    if not value or _TEMPLATE.fullmatch(value):
        return None
    if flag in program.secrets:
        return start, len(word)
    return (start, len(word)) if flag in program.logins and _is_login(value) else None


def _is_login(value: str) -> bool:
    """Whether it has a password: without one the program asks for it."""
    return any(one in value for one in _SEPARATORS) and not _TEMPLATE.fullmatch(value)


def command_credentials(searched: Searched) -> Iterator[Finding]:
    """Every credential in the commands of a text: lines for a shell, and lists of arguments."""
    text = searched.text
    if not any(before + "-" in text for before in _BEFORE_FLAG):
        return
    seen: dict[Program, int] = {}
    line_end = -1
    for match in _programs_in(searched):
        if line_end < match.end():
            line_end = _line_end(text, match.end())
        end = min(line_end, match.end() + _LONGEST)
        program = PROGRAMS[match[1].lower()]
        # A line is searched once for each kind of program, however often it names one.
        start = max(match.end(), seen.get(program, 0))
        if start < end and (not program.within or text.find(program.within, start, end) >= 0):
            seen[program] = end
            yield from _in_line(text, program, start, end)


def _programs_in(searched: Searched) -> list[re.Match[str]]:
    """The names of programs in the text, in order."""
    names = set(_BY_CLUE.fitting(searched.index, searched.low))
    if not searched.aligned:
        return list(_PROGRAM.finditer(searched.text)) if names else []
    matches = (match for name in names for match in searched.matches(_PROGRAM, name))
    return sorted({match.start(): match for match in matches}.values(), key=re.Match.start)


def _line_end(text: str, place: int) -> int:
    """The end of the line at ``place``; a backslash before it lets the command go on."""
    while True:
        end = text.find("\n", place)
        if end < 0:
            return len(text)
        if not text[max(0, end - 2) : end].rstrip("\r").endswith("\\"):
            return end
        place = end + 1


def _in_line(text: str, program: Program, start: int, end: int) -> Iterator[Finding]:
    for match in _FLAG.finditer(text, start, end):
        word, between, place = match["flag"], match["between"], match.end()
        if not between or between == "=" or not program.flag(word):
            # The value is part of the word, or of what follows it without a blank.
            is_long = word.startswith("--")
            place = match.end() if is_long else match.start() + len("-u")
            word, between = (word + between if is_long else word[:2]), ""
        span = _value_at(text, place, end)
        if span is None:
            continue
        first, last = span
        value = text[first:last]
        if between:
            spot = _credential(program, word, value) if not value.startswith("-") else None
            shift = first
        else:
            spot = _glued(program, word + value)
            shift = first - len(word)
        if spot is not None:
            yield Finding(shift + spot[0], shift + spot[1], "command")


def _value_at(text: str, place: int, end: int) -> tuple[int, int] | None:
    """The string or the word at ``place``; None where there is neither."""
    if is_closing_quote(text, place):
        return None
    found = string(text, place)
    if found is not None:
        return found.start, found.end
    bare = _BARE.match(text, place, end)
    return bare.span() if bare else None
