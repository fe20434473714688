"""Recording pages: captures and recordings of exchanges as rendered by ``reenact view``."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from reenact.server.context import RequestContext
from reenact.server.exchanges.service import get_exchange, with_recording
from reenact.server.pagination import page_of
from reenact.server.problems import Problem
from reenact.server.recordings.api import capture_filters
from reenact.server.recordings.service import CaptureView, read_capture, search_captures
from reenact.server.runtime import Server
from reenact.server.storage.rows import exchange_of
from reenact.server.web.components.formatting import size, stamp
from reenact.server.web.components.html import Child, fragment, link, tag, url
from reenact.server.web.components.layout import page
from reenact.server.web.components.tables import (
    field,
    filters,
    pager,
    since_until,
    table,
    time_filter,
)
from reenact.store.source import SeekableSource
from reenact.views.html.run_page import Window, contents, left_out, run_page, run_policy
from reenact.views.recorded_calls import read_run

__all__ = ["show_recordings", "view_capture", "view_exchange"]

_STEPS: Final = 2_000
_SIZE: Final = 8 << 20


async def show_recordings(context: RequestContext) -> Response:
    """Handle ``GET /recordings``: show the captures that match the filters, newest first."""
    chosen = capture_filters(context, *since_until(context))
    found = await search_captures(context, chosen, page_of(context))
    form = filters(
        context,
        "/recordings",
        field(context, "text", "Search", kind="search", hint="name of the run"),
        time_filter(context),
        more=(
            field(context, "from", "From (UTC)", kind="datetime-local"),
            field(context, "to", "To (UTC)", kind="datetime-local"),
        ),
        open_=bool(context.query("from") or context.query("to")),
    )
    heads = ("Pushed (UTC)", "Run", "Events", "Size", "By", "")
    none = "No run was pushed like this. Push one: reenact push RUN"
    listed = table(heads, map(_row, found.items), none=none, caption="Recordings, newest first")
    return page(context, "Recordings", form, listed, pager(context, found.next), here="/recordings")


def _row(one: CaptureView) -> tuple[Child, ...]:
    return (
        stamp(one.created_at),
        link(url("/recordings/{}/view", one.capture_id), one.name or one.capture_id),
        f"{one.events:,}",
        size(one.size),
        one.created_by,
        fragment(
            link(
                url("/api/v1/captures/{}", one.capture_id),
                "Download",
                download=f"{one.capture_id}.reenact",
            ),
            " ",
            tag("code", one.content_hash[:18], class_="dim", title=one.content_hash),
        ),
    )


async def view_capture(context: RequestContext) -> Response:
    """Handle ``GET /recordings/{id}/view``: show the run of a capture on a separate page."""
    found = await read_capture(context, context.path("id"))
    here, back = url("/recordings/{}/view", found.capture_id), ("/recordings", "Recordings")
    return await _view(context, found.digest, found.name or found.capture_id, back, here)


async def view_exchange(context: RequestContext) -> Response:
    """Handle ``GET /exchanges/{id}/view``: show its recording on a separate page, or 404 if it has
    none."""
    exchange = exchange_of(await get_exchange(context, context.path("id")))
    if exchange.recording is None:
        raise Problem("not_found", "this exchange has no recording")
    back = url("/exchanges/{}", exchange.exchange_id), "Exchange"
    here = url("/exchanges/{}/view", exchange.exchange_id)
    return await _view(context, exchange.recording.digest, exchange.route_id, back, here)


async def _view(
    context: RequestContext, digest: str, name: str, back: tuple[str, str], here: str
) -> Response:
    """Return a separate page with its own content security policy.

    Everything is embedded, and nothing is loaded.
    """
    first = context.number("from", 1, least=1)
    html = await _run_view(
        context.server, context.tenant, digest, name, back=back, here=here, first=first
    )
    headers = {"Content-Security-Policy": f"{run_policy()}; frame-ancestors 'none'"}
    return Response(html.encode("utf-8", "replace"), 200, headers, "text/html; charset=utf-8")


async def _run_view(
    server: Server,
    tenant: str,
    digest: str,
    name: str,
    *,
    back: tuple[str, str],
    here: str,
    first: int = 1,
) -> str:
    """Return the page of ``reenact view`` for a recording, with a link ``back``.

    A long recording has several pages, which start with the event ``first``. ``here`` is the
    address without that event. Raises :class:`Problem`.
    """

    def read(source: SeekableSource) -> str:
        window = Window(first=first, steps=_STEPS, size=_SIZE)
        made = contents(name, source.manifest(), read_run(source), window=window)
        links = [(here, "First steps")] if made["left"]["before"] else []
        if made["left"]["next"] is not None:
            links.append((f"{here}?from={made['left']['next']}", "Next steps"))
        return run_page(name, made, back=back, note=left_out(made), links=links)

    async with server.intake.readers.turn(tenant):
        return await with_recording(server, tenant, digest, read)
