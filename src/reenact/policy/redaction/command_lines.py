"""Credentials in the arguments of well-known programs: ``curl -u me:…``, ``mysql -p…``, ``net use …
PW``.

Flags with descriptive names (``--password …``) are found by name. This table contains the flags
whose meaning depends on the program. A command is recognised as a list of arguments and as a shell
command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from reenact.policy.patterns import lazy_pattern
from reenact.policy.redaction.grammar import Finding, is_closing_quote, string
from reenact.policy.redaction.placeholder import blind
from reenact.policy.redaction.prescan import Clue, ClueIndex, IndexedText, clue_of, matches_at
from reenact.policy.redaction.tokens import GATE_EDGE

__all__ = [
    "GATE_FLAG",
    "GATE_NET",
    "PROGRAMS",
    "Program",
    "argument_credentials",
    "command_credentials",
    "gate_program",
    "net_credentials",
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
    httpie = Program(logins=("-a", "--auth"))
    return {
        **dict.fromkeys(("curl", "wget"), curl),
        **dict.fromkeys(("http", "https", "xh", "xhs"), httpie),
        **dict.fromkeys(("docker", "podman", "buildah", "skopeo", "nerdctl", "helm"), login),
        **dict.fromkeys(
            """
            mongo mongosh mongodump mongorestore mongoexport mongoimport sshpass cqlsh twine psexec
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
_PROGRAM = lazy_pattern(
    # The colour codes of terminals are not part of a name.
    r"(?:(?<![A-Za-z0-9_.\-])|(?<=\[[0-9]m)|(?<=\[[0-9]{2}m)|(?<=;[0-9]m)|(?<=;[0-9]{2}m))"
    rf"({_WORDS})(?:\.exe)?(?=[ \t]|\\*[\"'])",
    re.IGNORECASE | re.ASCII,
)
_IN_URLS = ("http", "https")
_BEHIND_PROGRAM = (" ", "\t", '"', "'", "\\", "%", ".exe")


def _clues(name: str) -> tuple[Clue, ...]:
    """The clues to the program ``name``.

    Every URL has ``http`` in it: as a program it is not followed by a colon.
    """
    if name not in _IN_URLS:
        return (clue_of(name, leads=True, ends_word=True),)
    return tuple(clue_of(name + behind, leads=True) for behind in _BEHIND_PROGRAM)


_BY_CLUE = ClueIndex((clue, clue.need) for name in PROGRAMS for clue in _clues(name))
GATE_FLAG = r"(?:[ \t\n\"']|\\[nt]|%(?:09|0a|2[027]))-[a-z-]{0,12}[uapwk]"
"""Pattern of the gate for text after the program. Each flag of the table has one of these letters.
"""

# ``net use`` and ``net user`` take a password without a flag before it.
_NET = lazy_pattern(
    r"(?:(?<![A-Za-z0-9_.\-])|(?<=\\[nrt]))net1?(?:\.exe)?"
    r"(?P<between>[ \t]{1,8}|\\*[\"'][ \t\r\n]{0,40},[ \t\r\n]{0,40}\\*[\"'])"
    r"(?P<verb>user?)(?=[ \t]|\\*[\"'])",
    re.IGNORECASE | re.ASCII,
)
GATE_NET = rf"{GATE_EDGE}net1?(?:\.exe)?(?:[ \t\r\n\"',\\]|\\[nrt]){{1,100}}user?[ \t\"'\\]"
_NET_NAMES = ("net", "net1")
_DEVICE = lazy_pattern(r"[a-z]:|lpt[0-9]:?|[*?]", re.IGNORECASE | re.ASCII)
_VARIABLE = lazy_pattern(r"%\w+%|!\w+!", re.ASCII)
_MOST_WORDS = 12
_LINE_BETWEEN = lazy_pattern(r"[ \t]+")
_LIST_BETWEEN = lazy_pattern(r"\\*[\"'][ \t\r\n]{0,40},[ \t\r\n]{0,40}(?=\\*[\"'])")
_LINE_WORD = lazy_pattern(r"[^\"'`<>|;&\x00-\x20\x7f]+")

_LONGEST = 4_000
_BEFORE_FLAG = " \t\n\"'"
# A flag, and what separates it from its value: nothing, blanks, an equals sign, or the end of an
# item in a list of arguments.
_FLAG = lazy_pattern(
    r"(?<=[ \t\n\"'])(?P<flag>--?[A-Za-z][A-Za-z\-]*)"
    r"(?P<between>=|[ \t]{1,8}(?:\\\r?\n[ \t]{0,40})?|\\*[\"'][ \t\r\n]{0,40},[ \t\r\n]{0,40}(?=\\*[\"'])|)",
    re.ASCII,
)
_BARE = lazy_pattern(r"[^\"'`<>|;&\\\x00-\x20\x7f]+")
_TEMPLATE = lazy_pattern(r"(?:[\w.%:,@-]*)(?:\$\{?[A-Za-z_]|\$\(|\{\{|<)[^\"']*", re.ASCII)
_SEPARATORS = (":", ",", "%")
_TOKEN = lazy_pattern(r"(?=(?:[^0-9]*[0-9]){3})\S{16,}", re.ASCII)


def gate_program(name: str) -> tuple[tuple[Clue, ...], str]:
    """The clues and the pattern by which the gate finds the program ``name``."""
    return _clues(name), rf"{GATE_EDGE}{re.escape(name)}(?:\.exe)?[ \t\"'\\%]"


def argument_credentials(words: Sequence[str]) -> dict[int, tuple[int, int]]:
    """Return the credentials in a list of arguments: the index of the word, and the span in it."""
    found: dict[int, tuple[int, int]] = {}
    program: Program | None = None
    for index, word in enumerate(words):
        if _name_of(word) in _NET_NAMES and index + 1 < len(words):
            arguments = words[index + 2 : index + 2 + _MOST_WORDS]
            at = _net_password(words[index + 1], arguments, is_list=True)
            if at is not None:
                found[index + 2 + at] = (0, len(arguments[at]))
        named = PROGRAMS.get(_name_of(word))
        if named is not None and not (named.within and named.within not in words[index:]):
            program = named
        elif program is not None:
            spot = _credential(program, words[index - 1], word)
            if spot is not None:
                found[index] = spot
    return found


def _name_of(word: str) -> str:
    """The name of the program that ``word`` is the path of."""
    if len(word) > _LONGEST:
        return ""
    return word.replace("\\", "/").rpartition("/")[2].lower().removesuffix(".exe")


def _net_password(verb: str, words: Sequence[str], *, is_list: bool) -> int | None:
    """The index of the password in ``words``, the arguments of ``net use`` or ``net user``.

    In a line they must also have a share or a switch, because a sentence can have these words, too.
    """
    switches = [word for word in words if word[:1] == "/" and word[:2] != "//"]
    places = [at for at, word in enumerate(words) if word and word not in switches]
    if verb.lower() == "use":
        shares = [at for at in places if words[at].startswith(("\\\\", "//"))]
        is_login = any(word.lower().startswith("/user:") for word in switches)
        if not shares and not is_login:
            return None
        places = [at for at in places if at not in shares and not _DEVICE.fullmatch(words[at])]
    elif verb.lower() == "user" and (is_list or switches):
        places = [at for at in places[1:2] if words[at] != "*"]
    else:
        return None
    if not places or _VARIABLE.fullmatch(words[places[0]]) or _TEMPLATE.fullmatch(words[places[0]]):
        return None
    return places[0]


def _credential(program: Program, before: str, word: str) -> tuple[int, int] | None:
    """The part of ``word`` that ``program`` takes for a credential, ``before`` being the word before."""
    if word.startswith("-"):
        return _glued(program, word)
    flag = program.flag(before)
    if flag in program.secrets and not program.glued:
        return None if not word or _TEMPLATE.fullmatch(word) else _value_of(word)
    return (0, len(word)) if flag in program.logins and _is_login(word) else None


def _value_of(word: str) -> tuple[int, int] | None:
    """Return the span after ``pass:``, openssl's prefix of a literal password. A file name does not
    count.
    """
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
    """Return whether ``value`` has a password or is a token. Without one the program prompts for it."""
    value = blind(value)  # the colon of a pseudonym separates no password
    is_login = any(one in value for one in _SEPARATORS) or _TOKEN.fullmatch(value)
    return bool(is_login) and not _TEMPLATE.fullmatch(value)


def command_credentials(searched: IndexedText) -> Iterator[Finding]:
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


def net_credentials(text: str) -> Iterator[Finding]:
    """Every password of ``net use`` and ``net user`` in a text whose escapes are not undone.

    The names of shares start with backslashes, and what follows one only looks like an escape.
    """
    low = text.lower()
    is_aligned = len(low) == len(text)
    for match in matches_at(_NET, text, "net", low=low) if is_aligned else _NET.finditer(text):
        is_list = match["between"].lstrip(" \t") != ""
        spans = list(_net_spans(text, match.end(), is_list=is_list))
        words = [text[start:end] for start, end in spans]
        at = _net_password(match["verb"], words, is_list=is_list)
        if at is not None:
            yield Finding(*spans[at], "command")


def _net_spans(text: str, place: int, *, is_list: bool) -> Iterator[tuple[int, int]]:
    between = _LIST_BETWEEN if is_list else _LINE_BETWEEN
    for _ in range(_MOST_WORDS):
        gap = between.match(text, place)
        if gap is None:
            return
        quoted = string(text, gap.end())
        if quoted is not None and not is_closing_quote(text, gap.end()):
            # In a list the closing quote is part of what separates two words.
            place = quoted.end if is_list else quoted.after
            yield quoted.start, quoted.end
            continue
        word = _LINE_WORD.match(text, gap.end())
        if word is None:
            return
        place = word.end()
        yield word.start(), word.start() + len(word[0].rstrip("\\"))


def _programs_in(searched: IndexedText) -> list[re.Match[str]]:
    """The names of programs in the text, in order."""
    needs = set(_BY_CLUE.fitting(searched.index, searched.low))
    if not searched.aligned:
        return list(_PROGRAM.finditer(searched.text)) if needs else []
    matches = (match for need in needs for match in searched.matches(_PROGRAM, need))
    return sorted({match.start(): match for match in matches}.values(), key=re.Match.start)


def _line_end(text: str, place: int) -> int:
    """Return the end of the line at ``place``. A backslash in front of it continues the command."""
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
