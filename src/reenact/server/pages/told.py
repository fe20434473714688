"""What a recording tells about the calls of an exchange: when they were, and what was said to a
model."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final

import msgspec

from reenact.exchange.comparison.asking import as_asked
from reenact.exchange.comparison.calls import Call, read_calls
from reenact.exchange.model import Exchange
from reenact.server.exchanges.recordings import check_calls, with_recording
from reenact.server.ports import Server
from reenact.store.source import SeekableSource
from reenact.views.page.contents import Window, contents
from reenact.views.page.conversations import conversation
from reenact.views.page.run import left_out, run_page
from reenact.views.steps import Step, read_steps

__all__ = ["Told", "run_view", "tell"]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A call. Times are in milliseconds since the epoch; ``talk`` is what was said in a model
    call, the answer last, or None, and ``model`` which one that was. ``served``: a replay got its
    answer from the recording, which is where its times are from."""

    call: Call
    began: int
    ended: int
    talk: list[dict[str, Any]] | None = None
    model: str = ""
    served: bool = False


async def tell(server: Server, tenant: str, exchange: Exchange) -> tuple[Told, ...]:
    """The calls of ``exchange``, in order; none where it has no recording. Those of a replay are as
    they were asked."""
    if exchange.recording is None:
        return ()

    def read(source: SeekableSource) -> tuple[Told, ...]:
        check_calls(source, server.limits.called)
        steps_of = exchange.processors
        calls = as_asked(read_calls(source, steps_of), exchange.replay, steps_of).calls
        with closing(source.reopen()) as again:
            lanes = read_steps(again).lanes.values()
            steps = {step.seq: step for lane in lanes for step in lane}
            return tuple(_told(call, steps.get(call.seq), exchange) for call in calls)

    async with server.intake.readers.turn(tenant):
        return await with_recording(server, tenant, exchange.recording.digest, read)


def _told(call: Call, step: Step | None, exchange: Exchange) -> Told:
    if step is None:
        return Told(call=call, began=0, ended=0)
    told = Told(
        call=call,
        began=step.began,
        ended=step.ended,
        talk=conversation(step),
        model=step.name if step.kind == "llm" else "",
        served=exchange.replay is not None and step.began < exchange.started_at,
    )
    step.let_go()
    return told


_STEPS: Final = 2_000
_SIZE: Final = 8 << 20


async def run_view(
    server: Server,
    tenant: str,
    digest: str,
    name: str,
    *,
    back: tuple[str, str],
    here: str,
    first: int = 1,
) -> str:
    """The page that ``reenact view`` makes of a recording, with a way ``back``. A long recording has
    several, which begin with the event ``first``; ``here`` is the address without that. Raises
    :class:`Problem`."""

    def read(source: SeekableSource) -> str:
        window = Window(first=first, steps=_STEPS, size=_SIZE)
        made = contents(name, source.manifest(), read_steps(source), window=window)
        links = [(here, "First steps")] if made["left"]["before"] else []
        if made["left"]["next"] is not None:
            links.append((f"{here}?from={made['left']['next']}", "Next steps"))
        return run_page(name, made, back=back, note=left_out(made), links=links)

    async with server.intake.readers.turn(tenant):
        return await with_recording(server, tenant, digest, read)
