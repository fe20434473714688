"""Types of the policy files, and the built-in default policy.

The descriptions of the fields are the source of the JSON Schemas and of the reference page.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import Meta

from reenact.format.canonical import digest
from reenact.policy.paths import FOLDER, INDEX

__all__ = [
    "DEFAULT",
    "ID_PATTERN",
    "POLICY_SCHEMA",
    "SANITIZER_SCHEMA",
    "Action",
    "BoundaryRule",
    "Budgets",
    "Capability",
    "CapabilityRule",
    "CasePath",
    "CassetteName",
    "Digest",
    "Domain",
    "Entry",
    "ExceptionName",
    "FilePath",
    "Files",
    "Glob",
    "Header",
    "Id",
    "Ignore",
    "JsonPath",
    "Kind",
    "Limit",
    "Method",
    "Milliseconds",
    "Mode",
    "Name",
    "NetRules",
    "Pinned",
    "Policy",
    "Profile",
    "RedactorArguments",
    "RelativePath",
    "Sanitizer",
    "SessionMode",
    "TestId",
    "Variable",
    "World",
    "stays_inside",
]

# `$` would let a line end through in Python, and `\Z` is unknown to other readers of the schema.
_END = r"(?![\s\S])"

ID_PATTERN = rf"^[A-Za-z0-9][A-Za-z0-9._-]*{_END}"
_DOTTED = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
_CAPABILITY = rf"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*{_END}"


def _of(words: str, **limits: Any) -> Meta:
    """``words`` complete "expected …" in an error, also where a field has its own description."""
    return Meta(description=words, extra={"expected": words}, **limits)


Mode = Literal["off", "record", "replay", "record_missing", "rewrite"]
"""Modes that a policy can name."""
SessionMode = Literal["off", "record", "replay", "record_missing", "rewrite", "update"]
"""Modes of a session. For a policy, ``update`` counts as ``record_missing``."""
Action = Literal["record", "stub", "re-execute", "pass", "block"]
Profile = Literal["none", "default", "strict"]

Id = Annotated[
    str,
    _of(
        "an id: letters, digits, '.', '_' and '-', at most 128, not starting with a mark",
        pattern=ID_PATTERN,
        max_length=128,
    ),
]
World = Annotated[str, _of("the name of a world, such as ci", pattern=ID_PATTERN, max_length=128)]
Kind = Annotated[str, _of("a kind of call, such as network or tool", min_length=1, max_length=64)]
Glob = Annotated[
    str, _of("a name, in which * and ? stand for any text", min_length=1, max_length=256)
]
Name = Annotated[str, _of("a name of 1 to 256 characters", min_length=1, max_length=256)]
FilePath = Annotated[
    str, _of("the path of a file or folder", pattern=rf"^[^\x00]+{_END}", max_length=1024)
]
Capability = Annotated[
    str, _of("the name of a capability, such as net.fetch", pattern=_CAPABILITY, max_length=128)
]
Limit = Annotated[int, _of("a whole number, 0 or more", ge=0, le=2**53)]
Milliseconds = Annotated[int, _of("a whole number of milliseconds, 1 or more", ge=1, le=2**53)]
Header = Annotated[
    str, _of("the name of a header", pattern=rf"^[!#$%&'*+.^_`|~0-9A-Za-z-]+{_END}", max_length=256)
]
Domain = Annotated[
    str,
    _of(
        "a host without scheme and port, or *.host for it and all below it",
        pattern=rf"^(\*\.)?[^\s/\\*@?#%:]+{_END}|^\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]?{_END}",
        max_length=255,
    ),
]
Method = Annotated[str, _of("an HTTP method in capitals", pattern=rf"^[A-Z]+{_END}", max_length=32)]
JsonPath = Annotated[
    str, _of("a path such as $.messages[0].content", pattern=r"^\$", max_length=1024)
]
Variable = Annotated[
    str,
    _of(
        "the name of an environment variable",
        pattern=rf"^[A-Za-z_][A-Za-z0-9_]*{_END}",
        max_length=256,
    ),
]
Digest = Annotated[
    str,
    _of(
        "sha256: and 64 hexadecimal digits, as `reenact policy pin` writes them",
        pattern=rf"^(sha256:[0-9a-f]{{64}})?{_END}",
    ),
]
RelativePath = Annotated[
    str, _of("a path below the folder .reenact, without . and ..", min_length=1, max_length=1024)
]
TestId = Annotated[
    str,
    _of(
        "an id: letters, digits, '.', '_', '-' and '/', at most 128, not starting with a mark",
        pattern=rf"^[A-Za-z0-9][A-Za-z0-9._/-]*{_END}",
        max_length=128,
    ),
]
Entry = Annotated[
    str,
    _of(
        "a module and a function in it, such as app.tests:smoke",
        pattern=rf"^{_DOTTED}:{_DOTTED}{_END}",
        max_length=256,
    ),
]
ExceptionName = Annotated[
    str,
    _of(
        "the name of an exception, such as LookupError or httpx.TimeoutException",
        pattern=rf"^{_DOTTED}{_END}",
        max_length=256,
    ),
]
CassetteName = Annotated[
    str, _of("the name of a cassette, such as weather.jsonl", min_length=1, max_length=1000)
]
CasePath = Annotated[
    str,
    _of(
        "a folder below the one of this file, such as fixtures/weather",
        min_length=1,
        max_length=1000,
    ),
]


POLICY_SCHEMA = "reenact.policy@1"
SANITIZER_SCHEMA = "reenact.sanitizer@1"

# Served by this machine and this process, so an unrecorded call reaches no other system.
_INSIDE = frozenset({"time.now", "random", "env.read", "fs.read", "fs.write"})


class _Part(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Base class with the encoding rules of policy files."""


class Budgets(_Part, frozen=True):
    """Limits. A number is a limit and 0 means zero; leave a field out for unlimited."""

    cassette_bytes: Annotated[Limit | None, Meta(description="bytes of the recording")] = None
    entries: Annotated[Limit | None, Meta(description="recorded calls")] = None
    request_bytes: Annotated[Limit | None, Meta(description="bytes of one request")] = None
    response_bytes: Annotated[Limit | None, Meta(description="bytes of one response")] = None
    key_bytes: Annotated[Limit | None, Meta(description="bytes of what one call is matched by")] = (
        None
    )


class Ignore(_Part, frozen=True):
    """Parts of a call that are ignored when it is compared with the recorded one."""

    paths: Annotated[tuple[JsonPath, ...], Meta(description="places in the request")] = ()
    headers: Annotated[
        tuple[Header, ...], Meta(description="names of compared headers to ignore")
    ] = ()
    query: Annotated[tuple[Name, ...], Meta(description="parameters of the URL")] = ()


class CapabilityRule(_Part, frozen=True):
    """Permission to use a capability, and its limit of calls."""

    allow: Annotated[bool, Meta(description="whether the program is allowed to use it")] = True
    calls: Annotated[Limit | None, Meta(description="maximum number of calls per session")] = None


class NetRules(_Part, frozen=True):
    """Hosts that the program can connect to, and how. Applies in replay as well."""

    domains: Annotated[
        tuple[Domain, ...] | None,
        Meta(description="allowed hosts; `*.x.com` is x.com and its subdomains"),
    ] = None
    methods: Annotated[tuple[Method, ...] | None, Meta(description="allowed HTTP methods")] = None
    max_response_bytes: Annotated[
        Limit | None, Meta(description="maximum size of a live response, in bytes")
    ] = None
    timeout_ms: Annotated[
        Milliseconds | None, Meta(description="maximum duration of a live call, in milliseconds")
    ] = None
    redirects: Annotated[bool, Meta(description="whether redirects are followed")] = True
    private_addresses: Annotated[
        bool, Meta(description="whether Reenact's own live fetches can reach private addresses")
    ] = False


class Files(_Part, frozen=True):
    """Files that belong to the recording: their digests, and the content written to them. All other
    files are ignored.
    """

    roots: Annotated[
        tuple[FilePath, ...],
        Meta(description="folders and files, relative to the folder that contains .reenact"),
    ] = ()
    content: Annotated[
        bool,
        Meta(
            description="whether to store the content that was read, so that a replay can serve deleted files"
        ),
    ] = False


class BoundaryRule(_Part, frozen=True, kw_only=True):
    """Action for some of the calls. The first matching rule decides."""

    capability: Annotated[Glob, Meta(description="capabilities to which the rule applies")] = "*"
    operation: Annotated[Glob, Meta(description="operations to which the rule applies")] = "*"
    action: Annotated[Action, Meta(description="action for these calls")]


class Policy(_Part, frozen=True, kw_only=True):
    """Permissions of a program, and how its calls are recorded, compared and redacted."""

    schema_version: Annotated[
        Literal["reenact.policy@1"], Meta(description="kind of this file")
    ] = "reenact.policy@1"
    id: Annotated[Id, Meta(description="the id in the index")]
    mode: Annotated[
        Mode | None, Meta(description="mode of a session that sets none (default: replay)")
    ] = None
    match: Annotated[
        Literal["lane", "transcript", "lookup"],
        Meta(description="how a call finds its event: by lane, by one order for all, or by key"),
    ] = "lane"
    strictness: Annotated[
        Literal["strict", "lenient"] | None,
        Meta(
            description="whether a divergence ends the run (default: strict, but lenient in a "
            "terminal outside CI)"
        ),
    ] = None
    unused: Annotated[
        Literal["error", "warn", "allow"] | None,
        Meta(description="action for unused recorded events (default: error if strict, else warn)"),
    ] = None
    ignore: Annotated[Ignore, Meta(description="parts of a call that comparisons ignore")] = (
        Ignore()
    )
    volatile: Annotated[
        tuple[Literal["timestamps", "uuids", "durations", "tmp_paths"], ...],
        Meta(description="kinds of values that are treated as equal in comparisons"),
    ] = ()
    key_headers: Annotated[
        tuple[Header, ...], Meta(description="headers to include when HTTP calls are compared")
    ] = ()
    budgets: Annotated[Budgets, Meta(description="limits on sizes and counts")] = Budgets()
    redaction: Annotated[
        Profile | None,
        Meta(description="which secrets are redacted (default: default, strict in CI)"),
    ] = None
    sanitizer: Annotated[
        Id | None,
        Meta(description="the id of the sanitizer file, which configures redaction further"),
    ] = None
    capabilities: Annotated[
        dict[Capability, CapabilityRule] | None,
        Meta(description="capabilities of the program; if given, all others are denied"),
    ] = None
    net: Annotated[NetRules, Meta(description="rules for the network")] = NetRules()
    files: Annotated[Files, Meta(description="files that belong to what is recorded")] = Files()
    boundaries: Annotated[
        tuple[BoundaryRule, ...], Meta(description="what is done with which calls")
    ] = ()
    clock: Annotated[
        Literal["record", "pass"], Meta(description="whether the clock is re-enacted")
    ] = "record"
    rng: Annotated[
        Literal["record", "pass"], Meta(description="whether randomness is re-enacted")
    ] = "record"
    durability: Annotated[
        Literal["none", "interval", "event"],
        Meta(description="how much data a power failure can lose"),
    ] = "interval"
    allow_passthrough: Annotated[
        bool, Meta(description="whether rules can let calls leave the machine unrecorded")
    ] = False

    def action_for(self, capability: str, operation: str) -> Action:
        """Return the action for a call: the first matching rule, otherwise the clock and rng
        settings.
        """
        for rule in self.boundaries:
            if fnmatchcase(capability, rule.capability) and fnmatchcase(operation, rule.operation):
                return rule.action
        if capability == "time.now":
            return self.clock
        if capability == "random":
            return self.rng
        return "record"

    def to_json(self) -> dict[str, Any]:
        """Return the shortest equivalent file."""
        said: dict[str, Any] = msgspec.to_builtins(self)
        return {"schemaVersion": self.schema_version, **said}


DEFAULT = Policy(id="default")
"""Policy without a policy file: the built-in capabilities are allowed, all others are denied."""


class RedactorArguments(TypedDict):
    """The keyword arguments of :class:`reenact.policy.redaction.redactor.Redactor`."""

    profile: Profile
    salt: bytes | None
    declared: tuple[str, ...]
    environ: Mapping[str, str]
    secret_names: tuple[str, ...]
    not_secret_names: tuple[str, ...]


class Sanitizer(_Part, frozen=True, kw_only=True):
    """Secret values, listed by name only. This file never contains a secret."""

    schema_version: Annotated[
        Literal["reenact.sanitizer@1"], Meta(description="kind of this file")
    ] = "reenact.sanitizer@1"
    id: Annotated[Id, Meta(description="the id in the index and in the policy")]
    profile: Annotated[Profile, Meta(description="which built-in rules hold")] = "default"
    secret_names: Annotated[
        tuple[Name, ...], Meta(description="more names of fields that hold secrets")
    ] = ()
    not_secret_names: Annotated[
        tuple[Name, ...], Meta(description="names that look secret and are not")
    ] = ()
    declared_env: Annotated[
        tuple[Variable, ...],
        Meta(description="environment variables whose values are secret wherever they appear"),
    ] = ()
    salt_env: Annotated[
        Variable | None,
        Meta(description="the environment variable with the salt of the pseudonyms"),
    ] = None

    def arguments(self, environ: Mapping[str, str]) -> RedactorArguments:
        """Return the arguments of a redactor, with the values of the named variables from
        ``environ``.

        A variable that is not set adds nothing. Without its salt a secret gets the constant
        placeholder, which reveals less than a pseudonym.
        """
        salt = environ.get(self.salt_env, "") if self.salt_env else ""
        return {
            "profile": self.profile,
            "salt": salt.encode("utf-8", "surrogateescape") or None,
            "declared": tuple(filter(None, map(environ.get, self.declared_env))),
            "environ": environ,
            "secret_names": self.secret_names,
            "not_secret_names": self.not_secret_names,
        }


class Pinned(msgspec.Struct, frozen=True):
    """A policy as a session gets it, with what the index allows; None allows everything.

    ``path`` is the file it was read from, None for one that was made in code. ``stated`` are the
    dotted names of the fields that the file itself has. ``index`` is the file with the lists, and
    ``index_fields`` their names in a file that has its own ones.
    """

    policy: Policy
    digest: str
    sanitizer: Sanitizer | None = None
    modes: tuple[Mode, ...] | None = None
    worlds: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    operations: tuple[str, ...] | None = None
    path: str | None = None
    stated: frozenset[str] = frozenset()
    index: str = f"{FOLDER}/{INDEX}"
    index_fields: Mapping[str, str] = {}

    def place_of(self, name: str) -> str:
        """Return where the index lists ``modes``, ``worlds``, ``kinds`` or ``operations``."""
        return f"{self.index}, {self.index_fields.get(name, name)}"

    @classmethod
    def of(cls, policy: Policy) -> Pinned:
        """A policy that was made in code, with no list of what is allowed."""
        return cls(policy, digest(policy.to_json()))


def stays_inside(capability: str) -> bool:
    """Return whether a call can pass unrecorded without reaching anything outside this machine.

    False for every unknown capability, because a capability of a program can do anything.
    """
    return capability in _INSIDE
