"""Why a cassette should be recorded again, though it may still be replayed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from reenact.cli.inventory import Cassette, leftovers
from reenact.errors import ReenactError
from reenact.format.manifest import FORMAT, Flag, Manifest
from reenact.policy.model import DEFAULT, Pinned
from reenact.policy.paths import has_policies

__all__ = ["Project"]

Pin = Literal["pinned", "changed", "unknown", "built-in"]

_STRENGTH: Final = {"none": 0, "default": 1, "strict": 2}


class Project:
    """The policies of the project that cassettes belong to, each read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, Pinned | None] = {}

    def policy(self, name: str) -> Pinned | None:
        """The policy of that id, as it is pinned now; None where there is none that can be used."""
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> Pinned | None:
        if not has_policies(self._root):
            return Pinned.of(DEFAULT) if name == DEFAULT.id else None
        from reenact.policy.index import load_policy

        try:
            return load_policy(self._root, name)
        except ReenactError:
            return None  # ``reenact policy check`` says what is wrong with it

    def pin(self, manifest: Manifest) -> Pin:
        """Is the policy that the recording was made under the one that is pinned now?"""
        said = manifest.policy
        now = None if said is None else self.policy(said.id)
        if said is None or now is None:
            return "unknown"
        if said.digest != now.digest:
            return "changed"
        return "built-in" if now.policy is DEFAULT else "pinned"

    def reasons(self, cassette: Cassette) -> Iterator[str]:
        """Why ``cassette`` is stale, in words; none when it is not."""
        if cassette.status != "ok":
            yield f"{cassette.status}: {cassette.why}"
        for path in leftovers(cassette.path):
            if cassette.status != "unfinished":
                yield f"{path.name} was left over by a recording that did not end"
        if cassette.manifest is not None:
            yield from self._about(cassette.manifest)

    def _about(self, manifest: Manifest) -> Iterator[str]:
        if manifest.format.version != FORMAT.version or Flag.REVIEWED not in manifest.flags:
            yield "an older form of the format"
        if manifest.status != "ok":
            yield f"its status is {manifest.status}"
        pin = self.pin(manifest)
        said = manifest.policy
        if pin == "changed" and said is not None:
            yield f"the policy {said.id} is not the one it was recorded under"
        elif pin == "unknown" and said is not None:
            yield f"its policy {said.id} cannot be found"
        yield from self._about_redaction(manifest)

    def _about_redaction(self, manifest: Manifest) -> Iterator[str]:
        found = None if manifest.policy is None else self.policy(manifest.policy.id)
        wanted = (None if found is None else found.policy.redaction) or "default"
        if found is not None and found.sanitizer is not None and found.policy.redaction is None:
            wanted = found.sanitizer.profile
        if _STRENGTH[manifest.redaction.profile] < _STRENGTH[wanted]:
            yield f"redacted with the profile {manifest.redaction.profile}, now it is {wanted}"
