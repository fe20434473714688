"""The two runs of a comparison: what their steps say, and which of them say the same."""

from __future__ import annotations

from urllib.parse import urlsplit

from reenact.format import lane as lane_names
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction import Redactor
from reenact.views.saying import Speaker
from reenact.views.skimming import Seen, Skimmer
from reenact.views.steps import Step

__all__ = ["Label", "Said", "Side"]

Label = tuple[str, ...]


class Said:
    """What steps of both runs say, and a key for each: steps that say the same have the same one.

    An id that a model made up means the same in both runs, so a key depends on the step alone.
    """

    def __init__(self, rules: Rules, everything: bool) -> None:
        self._comparer = Comparer(rules, Redactor("none"))
        self._speaker = Speaker(everything=everything)
        self._keys: dict[bytes, str] = {}
        self._learnt = [0, 0]

    def learn(self, one: Skimmer, other: Skimmer) -> None:
        """Note the ids that models made up in what was read so far."""
        for number, run in enumerate((one, other)):
            for seen in run.answered[self._learnt[number] :]:
                if self._speaker.learn(run.step(seen)):
                    self._keys.clear()
            self._learnt[number] = len(run.answered)

    def of(self, step: Step) -> object:
        """What is compared of ``step``."""
        return self._comparer.normal(self._speaker.of(step))

    def key(self, run: Skimmer, seen: Seen) -> str:
        """The digest of that."""
        found = self._keys.get(seen.digest)
        if found is None:
            found = self._keys[seen.digest] = self._comparer.key(self._speaker.of(run.step(seen)))
        return found


class Side:
    """One of the two."""

    def __init__(self, skimmer: Skimmer, said: Said) -> None:
        self.lanes = skimmer.lanes
        self.step = skimmer.step
        self._skimmer = skimmer
        self._said = said
        self._children: dict[str, list[str]] = {}
        for lane in sorted(skimmer.lanes, key=lane_names.order):
            self._children.setdefault(self._above(lane), []).append(lane)

    def key(self, seen: Seen) -> str:
        """Steps with the same one say the same."""
        return self._said.key(self._skimmer, seen)

    def keys(self, lane: str) -> tuple[str, ...]:
        """What all steps of ``lane`` say."""
        return tuple(map(self.key, self.lanes[lane]))

    def label(self, seen: Seen) -> Label:
        """What kind of thing is done: another prompt or another number is the same kind."""
        if seen.kind == "llm":
            return ("llm",)
        request = self.step(seen).asked.get("request")
        url = request.get("url") if isinstance(request, dict) else None
        path = urlsplit(url).path if isinstance(url, str) else ""
        return (seen.kind, seen.name, path)

    def labels(self, lane: str) -> tuple[Label, ...]:
        """What all steps of ``lane`` do."""
        return tuple(map(self.label, self.lanes[lane]))

    def said(self, step: Step) -> object:
        """What is compared of ``step``."""
        return self._said.of(step)

    def children(self, lane: str) -> list[str]:
        """The lanes right under ``lane``; under "" those that are under none."""
        return self._children.get(lane, [])

    def _above(self, lane: str) -> str:
        """The nearest lane above in which something was done."""
        while lane := lane.rpartition(".")[0]:
            if lane in self.lanes:
                return lane
        return ""
