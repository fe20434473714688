"""What a program can do at its edge: the names there are, each with the version of its contract."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from reenact.errors import UsageError
from reenact.policy.nearest import did_you_mean
from reenact.policy.patterns import late

__all__ = ["BUILT_IN", "KNOWN", "PROTOCOL_VERSION", "Capabilities", "set_hash"]

PROTOCOL_VERSION = 1
"""Of the report that ``reenact capabilities --json`` prints."""

BUILT_IN: Mapping[str, str] = dict.fromkeys(
    """
    net.fetch net.stream net.connect llm.call tool.call process.exec time.now random fs.read fs.write
    env.read mcp.call
    """.split(),
    "1",
)

_NAME = late(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_VERSION = late(r"[0-9A-Za-z][0-9A-Za-z._-]*")
_LONGEST = 128


class Capabilities:
    """A registry. Entries are only added, each by one assignment, so it is safe to share."""

    def __init__(self, versions: Mapping[str, str] = BUILT_IN) -> None:
        self._versions = dict(versions)
        self._hashed = (0, "")
        """How many entries there were when the hash was computed, and the hash."""

    def register(self, name: str, version: str = "1") -> None:
        """Make a capability known. Again with the same version changes nothing.

        Known is not allowed: a policy has to name it. Raises :class:`UsageError` for a name that
        cannot be one and for a second version.
        """
        if not _NAME.fullmatch(name) or len(name) > _LONGEST:
            raise UsageError(
                f"{name[:_LONGEST]!r} cannot be the name of a capability",
                hint="small letters, digits and '_', in words joined by '.', such as db.query",
            )
        if not _VERSION.fullmatch(version) or len(version) > _LONGEST:
            raise UsageError(
                f"{version[:_LONGEST]!r} cannot be the version of the capability {name}",
                hint="letters, digits, '.', '_' and '-', such as 1",
            )
        if self._versions.setdefault(name, version) != version:
            raise UsageError(
                f"the capability {name} is registered with version {self._versions[name]}, "
                f"not {version}",
                hint="one process knows one version of a capability; agree on one, or choose "
                "another name",
            )

    def __contains__(self, name: object) -> bool:
        return name in self._versions

    def items(self) -> tuple[tuple[str, str], ...]:
        """Names and versions, sorted by name."""
        return tuple(sorted(self._versions.items()))

    def nearest(self, name: str) -> str:
        """A hint for a name that is not known."""
        return did_you_mean(name, self._versions)

    def capability_set_hash(self) -> str:
        """``sha256:<64 hex>``: the same for the same names and versions, whoever computes it."""
        count, found = self._hashed
        if count != len(self._versions):  # entries are only added
            items = self.items()
            found = set_hash(items)
            self._hashed = (len(items), found)
        return found


def set_hash(items: Iterable[tuple[str, str]]) -> str:
    """The hash over ``name TAB version LF`` for every item, sorted by name."""
    lines = "".join(f"{name}\t{version}\n" for name, version in sorted(items))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


KNOWN = Capabilities()
"""What this process knows. Boundaries and programs add theirs."""
