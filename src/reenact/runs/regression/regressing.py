"""One regression, from the first recording to the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from reenact._system import monotonic
from reenact.runs.afar.place import Place
from reenact.runs.regression.account import Account
from reenact.runs.regression.baseline import Baseline
from reenact.runs.regression.job import Engine
from reenact.runs.regression.ledger import Journal
from reenact.runs.regression.outcome import Outcome, as_line, name_of
from reenact.runs.regression.tally import Tally

__all__ = ["Regression"]


class Regression:
    """``account`` and ``tally`` say how far it has come, also when it was interrupted."""

    def __init__(self, account: Account, known: Baseline, journal: Journal | None = None) -> None:
        self.account = account
        self.tally = Tally()
        self._known = known
        self._journal = journal

    def resume(self, recordings: Sequence[Place]) -> list[Place]:
        """Take from the journal what is done. What is left to do: also what could not be got."""
        kept = {} if self._journal is None else self._journal.read()
        done = {name: outcome for name, outcome in kept.items() if not outcome.away}
        for one in recordings:
            outcome = done.get(name_of(one))
            if outcome is not None:
                outcome.known = self._known.has(outcome)  # by the baseline of today
                self.tally.add(outcome)
        self.account.resumed = len(self.tally)
        return [one for one in recordings if name_of(one) not in done]

    def perform(
        self,
        recordings: Sequence[Place],
        engine: Engine,
        *,
        fail_fast: bool,
        step: Callable[[Tally], None],
    ) -> None:
        """Re-enact them; ``step`` is called after each. Raises :class:`KeyboardInterrupt` when
        somebody ends it; nothing goes on then."""
        start = monotonic()
        self.account.ended = "interrupted"
        try:
            with closing(engine.perform(recordings)) as coming:
                for outcome in coming:
                    outcome.known = self._known.has(outcome)
                    self._add(outcome)
                    step(self.tally)
                    if fail_fast and outcome.is_bad:
                        break
            whole = len(self.tally) == self.account.total
            self.account.ended = "complete" if whole else "stopped"
        finally:
            self.account.seconds = round(monotonic() - start, 3)
            if self._journal is not None:
                self._journal.close()

    def _add(self, outcome: Outcome) -> None:
        line = as_line(outcome)  # before it loses its details
        self.tally.add(outcome)
        if self._journal is not None:
            self._journal.add(line)
