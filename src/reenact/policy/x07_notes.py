"""What became of each setting of an X07 folder: carried over, changed in meaning, or lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from reenact.policy.names import normalise
from reenact.policy.placeholder import PLACEHOLDER
from reenact.policy.x07_files import Arch, Member
from reenact.policy.x07_schema import ArchPolicy, ArchSanitizer, ArchWorld

__all__ = ["KINDS", "SALT", "WORLDS", "Note", "notes"]

# The fixture worlds that may use recordings are those of tests, which run in CI as well.
WORLDS: dict[ArchWorld, tuple[str, ...]] = {
    "run-os": ("local",),
    "solve-full": ("ci", "test"),
    "solve-rr": ("ci", "test"),
}
"""Which of our worlds an X07 world is. The others stay worlds of their own."""

KINDS = {"file": "fs", "http": "network", "process": "process", "rr": "rr"}
"""Which of our kinds of calls an X07 kind is. All keep their own names too, for ``reenact.rr``."""

SALT = "REENACT_SALT"
"""The variable for the salt of an imported sanitizer."""

_OF_OURS = "add them to kinds in .reenact/index.json if the program needs them"
_LOW_LEVEL = ("std.rr.", "std.msg.", "std.crawl.", "std.stream.src.rr_send_v1")

Fate = Literal["mapped", "changed", "lost"]


@dataclass(frozen=True, slots=True)
class Note:
    """What became of one setting.

    ``mapped`` is the same under our name, ``changed`` means something else here, ``lost`` was not
    carried over. ``file`` and ``path`` are the place in the X07 folder.
    """

    fate: Fate
    file: str
    path: str
    message: str
    hint: str = ""


# A note without its file.
_Said = tuple[Fate, str, str, str]


def notes(arch: Arch) -> Iterator[Note]:
    """Every setting that is there, in the order of the files. Shows no salt and no token."""
    allowed = ", ".join(mode.removesuffix("_v1") for mode in arch.index.modes)
    place = "$.defaults.record_modes_allowed" if arch.index.defaults.record_modes_allowed else "$"
    yield Note("mapped", arch.file, place, f"the modes {allowed}, for each of its policies")
    for member in arch.members:
        yield from _noted(arch.file, _reference(member))
    for member in arch.members:
        yield from _noted(member.policy_file, _policy(member.policy))
    for file, sanitizer in {one.sanitizer_file: one.sanitizer for one in arch.members}.items():
        yield from _noted(file, _sanitizer(sanitizer))
    for file in arch.strays:
        hint = "name it in the index of X07 and import again, if it is wanted"
        yield Note("lost", file, "$", "the index does not name it", hint)


def _noted(file: str, said: Iterator[_Said]) -> Iterator[Note]:
    for fate, path, message, hint in said:
        yield Note(fate, file, path, message, hint)


def _reference(member: Member) -> Iterator[_Said]:
    place = f"$.policies[{member.number}]"
    for name, each in _LISTS.items():
        for number, item in enumerate(getattr(member.reference, name)):
            fate, message, hint = each(item)
            yield fate, f"{place}.{name}[{number}]", message, hint
    message = "clock, rng, env, llm and tool are kinds too, and refused unless they are listed"
    yield "changed", f"{place}.kinds_allowed", message, _OF_OURS
    message = "no cassette is imported, only policies and sanitizers"
    yield "lost", f"{place}.cassette_brand", message, "record anew under the policy"


def _world(world: ArchWorld) -> tuple[Fate, str, str]:
    ours = WORLDS.get(world)
    if ours is None:
        hint = f"set REENACT_WORLD={world} there, or name one of our worlds in .reenact/index.json"
        return "changed", f"{world} stays a world of its own", hint
    if world == "run-os":
        hint = "add staging or production in .reenact/index.json if it is meant for them"
        return "changed", f"{world} is {' and '.join(ours)} alone", hint
    return "mapped", f"{world} is {' and '.join(ours)}", ""


def _kind(kind: str) -> tuple[Fate, str, str]:
    ours = KINDS.get(kind)
    if ours is None:
        hint = "name the kind that is meant in .reenact/index.json, such as network"
        return "changed", f"{kind} keeps its name, which only calls of reenact.rr can have", hint
    if ours == kind:
        return "mapped", f"{kind} keeps its name", ""
    return "mapped", f"{kind} is {ours}, and {kind} in calls of reenact.rr", ""


def _operation(operation: str) -> tuple[Fate, str, str]:
    if operation.startswith(_LOW_LEVEL):
        return "mapped", f"{operation} keeps its name", ""
    hint = "add the operations that your program calls to its entry in .reenact/index.json"
    return "changed", f"{operation} keeps its name, which only calls of reenact.rr can have", hint


_LISTS: dict[str, Callable[..., tuple[Fate, str, str]]] = {
    "worlds_allowed": _world,
    "kinds_allowed": _kind,
    "ops_allowed": _operation,
}


def _policy(policy: ArchPolicy) -> Iterator[_Said]:
    yield "lost", "$.v", "policies have no version number here; the index pins their contents", ""
    mode = policy.mode_default.removesuffix("_v1")
    yield "mapped", "$.mode_default", f'mode "{mode}"', ""
    if policy.match_mode == "lookup_v1":
        yield "mapped", "$.match_mode", 'match "lookup"', ""
    else:
        message = (
            'match "transcript", which compares keys as well, and stays where it was on a miss'
        )
        yield "changed", "$.match_mode", message, "ignore says what does not count"
    message = (
        'strictness "strict", as X07 refuses every miss; events that are left over are errors too'
    )
    yield "changed", "$", message, '"unused": "allow" in the policy lets a replay leave some over'
    message = "the same five numbers, 0 meaning zero; they count bytes as our recordings have them"
    yield "changed", "$.budgets", message, "raise them if they turn out too tight"
    yield from _http(policy)


def _http(policy: ArchPolicy) -> Iterator[_Said]:
    key = policy.http.key_v1
    if key is None:
        return
    place = "$.http.key_v1"
    yield "mapped", f"{place}.include_headers", "keyHeaders", ""
    yield "mapped", f"{place}.ignore_headers", "ignore.headers", ""
    for name, what in (("query_sort", "queries"), ("body_hash", "bodies")):
        yield "lost", f"{place}.{name}", f"how {what} are compared is no setting here", ""


def _sanitizer(sanitizer: ArchSanitizer) -> Iterator[_Said]:
    yield "lost", "$.v", "sanitizers have no version number here; the index pins their contents", ""
    message = 'the built-in rules of the profile "default" hold as well'
    yield "changed", "$", message, '"profile": "none" would turn them off'
    for number, name in enumerate(sanitizer.redact_headers):
        place = f"$.redact_headers[{number}]"
        if normalise(name):
            message = f"secretNames has {name}, which holds for fields and parameters as well"
            yield "changed", place, message, ""
        else:
            yield "lost", place, f"{name} has no letter or digit to know it by", "rename the header"
    if sanitizer.redact_token != PLACEHOLDER:
        yield "lost", "$.redact_token", f"what stands for a secret is always {PLACEHOLDER}", ""
    if sanitizer.stable_pseudonym_salt is not None:
        message = "the salt is not copied, because in a file it is a secret that everybody has"
        hint = f"set {SALT}, which saltEnv names now, to a new salt; else secrets all look the same"
        yield "lost", "$.stable_pseudonym_salt", message, hint
