"""Audit log pages: records, proofs and export."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from reenact.audit.log import open_head
from reenact.audit.proof import check_proof
from reenact.audit.record import ACTIONS, OUTCOMES
from reenact.errors import AuditInvalid
from reenact.server.audit import service
from reenact.server.audit.api import record_filter
from reenact.server.context import RequestContext
from reenact.server.problems import Problem
from reenact.server.tenants.service import KnownNames, known_names
from reenact.server.web.components.formatting import badge, block, count, facts, pretty, stamp
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.layout import page
from reenact.server.web.components.tables import (
    choice,
    field,
    filters,
    pager,
    since_until,
    table,
    time_filter,
)

__all__ = ["show_audit", "show_record"]


async def show_audit(context: RequestContext) -> Response:
    """Handle ``GET /audit``: show the records that match the filters, and the state of the log."""
    context.require("audit:read")  # before the query is read
    wanted = record_filter(context, *since_until(context))
    found = await service.list_records(context, wanted, context.limit)
    records = [(one.seq, msgspec.json.decode(one.record)) for one in found.items]
    names = await _names(context, [record for _, record in records])
    rows = [_row(seq, record, names) for seq, record in records]
    heads = ("№", "At (UTC)", "Who", "Did", "About", "Where", "Outcome")
    listed = table(
        heads,
        rows,
        none="No record is like this. Fewer filters find more.",
        caption="Audit records, newest first",
        brief=True,
    )
    return page(
        context,
        "Audit",
        await _status(context),
        _filters(context, await known_names(context)),
        listed,
        pager(context, found.next),
        here="/audit",
        heading=_exports(context),
    )


def _filters(context: RequestContext, known: KnownNames) -> Html:
    return filters(
        context,
        "/audit",
        choice(
            context, "action", "Action", [("", "all"), *((one, one) for one in sorted(ACTIONS))]
        ),
        choice(
            context,
            "outcome",
            "Outcome",
            [("", "all"), *((one, one) for one in sorted(OUTCOMES) if one)],
        ),
        field(context, "actor", "Who", hint="e-mail, key or id"),
        field(context, "environment", "Environment", known=known.environments),
        time_filter(context),
        more=(
            field(context, "exchange", "Exchange"),
            field(context, "replay", "Replay"),
            field(context, "from", "From (UTC)", kind="datetime-local"),
            field(context, "to", "To (UTC)", kind="datetime-local"),
        ),
        open_=any(context.query(name) for name in ("exchange", "replay", "from", "to")),
    )


def _exports(context: RequestContext) -> Html | None:
    if not context.has_anywhere("audit:export"):
        return None
    ways = (("tar", "Export with proofs"), ("csv", "CSV"), ("jsonl", "JSON lines"))
    return tag(
        "div",
        *(
            link(url("/api/v1/audit/export", format=form), said, class_="button", download=True)
            for form, said in ways
        ),
        class_="actions",
    )


async def _status(context: RequestContext) -> Html:
    """Render the newest head and the result of its signature check."""
    key = context.server.auditor.key(context.tenant)
    try:
        head = open_head((await service.read_head(context)).encode(), [key])
    except AuditInvalid as error:
        return tag("div", tag("p", error.message), class_="alert", role="alert")
    said = fragment(
        badge("signed", tone="good"),
        f" {count(head.size, 'record')}, root ",
        tag("code", b64encode(head.root).decode()),
        " ",
        link("/api/v1/audit/head", "head"),
        " ",
        link("/api/v1/audit/key", "key"),
    )
    return tag("p", said, class_="proof")


async def _names(context: RequestContext, records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the names of the users and keys in ``records``, by id."""
    ids = {_id(record.get(part)) for record in records for part in ("actor", "subject")}
    return await service.names_by_id(context, ids)


def _id(part: Any) -> str:
    return str(part.get("id", "")) if isinstance(part, dict) else ""


def _row(seq: int, record: dict[str, Any], names: dict[str, str]) -> tuple[Child, ...]:
    return (
        tag("span", f"{seq:,}", class_="dim"),
        stamp(int(record.get("at", 0))),
        _who(record.get("actor") or {}, names),
        link(url("/audit/{}", str(seq)), str(record.get("action", "")), class_="route"),
        _about(record, names),
        _where(record),
        _outcome(record),
    )


def _outcome(record: dict[str, Any]) -> Html:
    """Render the outcome, the code and the verdict. A record does not contain the ending of the
    replayed exchange, so ``identical`` and ``equivalent`` have no colour."""
    summary = record.get("diffSummary")
    verdict = str(summary.get("verdict", "")) if isinstance(summary, dict) else ""
    tone = "plain" if verdict in ("identical", "equivalent") else ""
    ran = "plain" if verdict and record.get("outcome") == "ok" else ""
    return fragment(
        badge(str(record["outcome"]), tone=ran) if record.get("outcome") else None,
        tag("span", f" {record['code']}", class_="dim") if record.get("code") else None,
        (" ", badge(verdict, tone=tone)) if verdict else None,
    )


def _who(actor: dict[str, Any], names: dict[str, str]) -> Html:
    """Render an actor: its name if known, its id and its address."""
    id, kind = str(actor.get("id", "")), str(actor.get("type", ""))
    title = " from ".join(filter(None, (id, str(actor.get("ip", "")))))
    way = link(url("/audit", actor=id), names.get(id) or f"{kind} {id}", title=title or None)
    return fragment(way, tag("span", f" {kind}", class_="dim") if names.get(id) else None)


def _where(record: dict[str, Any]) -> Html:
    """Return the environment, and the app if there is one."""
    target = record.get("target") or {}
    app = str(target.get("app", ""))
    return fragment(
        str(record.get("env", "")), tag("span", f" {app}", class_="dim") if app else None
    )


def _named(subject: dict[str, Any], names: dict[str, str]) -> Html:
    id, kind = str(subject.get("id", "")), str(subject.get("type", ""))
    if kind == "batch":
        return link(url("/batches/{}", id), kind, title=id)
    return tag("span", f"{kind} {names.get(id) or id}", title=id)


def _about(record: dict[str, Any], names: dict[str, str]) -> Html:
    source, subject = record.get("source") or {}, record.get("subject") or {}
    replay, exchange = str(record.get("replayId", "")), str(source.get("exchangeId", ""))
    return fragment(
        link(url("/replays/{}", replay), "replay") if replay else None,
        " of " if replay and exchange else None,
        link(url("/exchanges/{}", exchange), str(source.get("routeId") or "exchange"))
        if exchange
        else None,
        _named(subject, names) if subject else None,
        tag("span", f" “{record['reason']}”", class_="dim") if record.get("reason") else None,
    )


async def show_record(context: RequestContext) -> Response:
    """Handle ``GET /audit/{seq}``: show a record with its proof.

    Raises ``damaged`` if the proof is invalid.
    """
    seq = context.path("seq")
    proved = await service.prove_record(context, seq)
    key = context.server.auditor.key(context.tenant)
    try:
        proof, _ = check_proof(proved.to_text().encode(), [key])
    except AuditInvalid as error:
        raise Problem("damaged", error.message, hint="export the log and verify it") from None
    record = msgspec.json.decode(proof.leaf)
    names = await _names(context, [record])
    verify = f"reenact audit verify {seq}.tlog-proof --key key.pub"
    return page(
        context,
        f"Record {seq}",
        facts(
            (
                ("At (UTC)", stamp(int(record.get("at", 0)))),
                ("Who", _who(record.get("actor") or {}, names)),
                ("Action", str(record.get("action", ""))),
                ("About", _about(record, names)),
                ("Where", _where(record)),
                ("Outcome", _outcome(record)),
            )
        ),
        tag(
            "section",
            tag("h2", "Proof"),
            tag(
                "p",
                badge("verified", tone="good"),
                f" The log of {count(proof.head.size, 'record')}, signed by this server, has this "
                f"record: {count(len(proof.path), 'node')} lead from it to the root.",
            ),
            facts(
                (
                    ("Root", tag("code", b64encode(proof.head.root).decode())),
                    ("Key", tag("code", key.to_text())),
                )
            ),
            tag(
                "p",
                "This server has checked its own log. To check it yourself, download the ",
                link(url("/api/v1/audit/proof/{}", seq), "proof", download=f"{seq}.tlog-proof"),
                " and the ",
                link("/api/v1/audit/key", "key", download="key.pub"),
                " (once, and from another source if you can), and run:",
            ),
            tag("pre", verify, tabindex=0),
        ),
        tag("section", tag("h2", "Record"), block(pretty(record))),
        here="/audit",
        heading=_ways(int(seq), proof.head.size, record),
    )


def _ways(seq: int, size: int, record: dict[str, Any]) -> Html:
    """Return links to the neighbouring records and to all records of the same replay."""
    replay = str(record.get("replayId", ""))
    return tag(
        "div",
        link(url("/audit", replay=replay), "All of this replay", class_="button")
        if replay
        else None,
        link(url("/audit/{}", str(seq - 1)), "Older", rel="prev", class_="button") if seq else None,
        link(url("/audit/{}", str(seq + 1)), "Newer", rel="next", class_="button")
        if seq + 1 < size
        else None,
        class_="actions",
    )
