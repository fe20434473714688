"""Validation of a policy beyond its types: contradictions with itself, its index entry or its
sanitizer.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from reenact.errors import PolicyInvalid, did_you_mean
from reenact.format.json_path import join
from reenact.policy.access import BUILT_IN
from reenact.policy.files import Finding
from reenact.policy.matching import ignored_paths
from reenact.policy.model import Mode, Policy, Sanitizer, stays_inside
from reenact.policy.redaction.names import Names

__all__ = ["policy_findings"]


def policy_findings(
    policy: Policy,
    file: str,
    listed_as: str,
    sanitizer: Sanitizer | None,
    has_sanitizer: bool,
    modes: tuple[Mode, ...] | None,
) -> list[Finding]:
    """Return the contradictions of a policy with itself, its index entry or its sanitizer.

    ``sanitizer`` is the file that the entry names, None if there is none or it cannot be read;
    ``has_sanitizer`` distinguishes the two.
    """
    return [
        *_identity(policy, file, listed_as),
        *_secrets(policy, file, sanitizer, has_sanitizer),
        *_modes(policy, file, modes),
        *_paths(policy, file),
        *_rules(policy, file),
        *_names(policy, file),
        *_key_headers(policy, file, sanitizer),
        *_roots(policy, file),
    ]


def _identity(policy: Policy, file: str, listed_as: str) -> Iterator[Finding]:
    if policy.id != listed_as:
        message = f"its id is {policy.id}, and {listed_as} in the index"
        yield Finding("error", file, "$.id", message, "use one id for both")


def _secrets(
    policy: Policy, file: str, sanitizer: Sanitizer | None, has_sanitizer: bool
) -> Iterator[Finding]:
    path = "$.sanitizer"
    if policy.sanitizer is not None and not has_sanitizer:
        message = f"the index pins no sanitizer {policy.sanitizer} for this policy"
        hint = "add sanitizer with id and path to its entry in .reenact/index.json"
        yield Finding("error", file, path, message, hint)
    elif policy.sanitizer is None and has_sanitizer:
        message = "the index pins a sanitizer that this policy does not name"
        hint = "name it in the policy, or take it out of .reenact/index.json"
        yield Finding("error", file, path, message, hint)
    if sanitizer is None:
        return
    if policy.sanitizer is not None and policy.sanitizer != sanitizer.id:
        message = f"the policy names {policy.sanitizer}, but the index pins {sanitizer.id}"
        yield Finding("error", file, path, message, "use one id for both")
    if policy.redaction not in (None, sanitizer.profile):
        message = f"redaction is {policy.redaction}, but the sanitizer has the profile {sanitizer.profile}"
        yield Finding("error", file, "$.redaction", message, "leave redaction out of the policy")


def _modes(policy: Policy, file: str, modes: tuple[Mode, ...] | None) -> Iterator[Finding]:
    if policy.mode is not None and modes is not None and policy.mode not in modes:
        message = f"the index does not allow the mode {policy.mode} for this policy"
        yield Finding("error", file, "$.mode", message, f"allowed: {', '.join(modes) or 'none'}")


def _paths(policy: Policy, file: str) -> Iterator[Finding]:
    for number, text in enumerate(policy.ignore.paths):
        try:
            ignored_paths([text])
        except PolicyInvalid as error:
            path = f"$.ignore.paths[{number}]"
            yield Finding("error", file, path, error.message, error.hint)


def _rules(policy: Policy, file: str) -> Iterator[Finding]:
    if policy.allow_passthrough:
        return
    for number, rule in enumerate(policy.boundaries):
        if rule.action == "pass" and not _only_inside(rule.capability):
            path = f"$.boundaries[{number}].action"
            message = f"this rule would let calls of {rule.capability} out unrecorded"
            hint = 'record them, or say "allowPassthrough": true'
            yield Finding("error", file, path, message, hint)


def _only_inside(pattern: str) -> bool:
    fitting = [name for name in BUILT_IN if fnmatchcase(name, pattern)]
    return bool(fitting) and all(map(stays_inside, fitting))


def _names(policy: Policy, file: str) -> Iterator[Finding]:
    """A program may register capabilities of its own, so an unknown name is only odd."""
    own = policy.capabilities or {}
    for name in own:
        if name not in BUILT_IN:
            message = f"{name} is not built in; it stays denied until the program registers it"
            yield Finding("warning", file, join(("capabilities", name)), message, _meant(name))
    for number, rule in enumerate(policy.boundaries):
        if not any(fnmatchcase(name, rule.capability) for name in (*BUILT_IN, *own)):
            message = f"no known capability fits {rule.capability}"
            path = f"$.boundaries[{number}].capability"
            yield Finding("warning", file, path, message, _meant(rule.capability))


def _key_headers(policy: Policy, file: str, sanitizer: Sanitizer | None) -> Iterator[Finding]:
    own = () if sanitizer is None else sanitizer.secret_names
    not_secret = () if sanitizer is None else sanitizer.not_secret_names
    names = Names(own, not_secret)
    for number, header in enumerate(policy.key_headers):
        if names.secret(header):
            message = f"{header} is redacted before calls are compared, so its value cannot count"
            hint = "leave it out; a replay matches with other credentials, or none"
            yield Finding("warning", file, f"$.keyHeaders[{number}]", message, hint)


def _roots(policy: Policy, file: str) -> Iterator[Finding]:
    for number, root in enumerate(policy.files.roots):
        if PurePosixPath(root).is_absolute():
            message = f"{root} is a place on this machine only, and recordings name files by it"
            hint = "write it as seen from the folder that has .reenact"
            yield Finding("warning", file, f"$.files.roots[{number}]", message, hint)


def _meant(name: str) -> str:
    return did_you_mean(name, BUILT_IN)
