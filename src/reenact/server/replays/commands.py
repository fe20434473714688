"""A planned replay, put down: its row, its signed command and its first record, or none of them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from reenact.audit.record import Change, Record, Source, Target
from reenact.exchange.command_signature import sign
from reenact.exchange.containment import effective_containment
from reenact.exchange.model import Command
from reenact.exchange.payload import payload_digest
from reenact.format.canonical import digest_bytes
from reenact.server.audit.log import actor_of
from reenact.server.context import Caller
from reenact.server.exchanges.redaction import clean_text
from reenact.server.replays.checks import containment_of, details_of
from reenact.server.replays.plan import Plan
from reenact.server.replays.schema import Edit, edits, hidden
from reenact.server.replays.state import deadline_of, due_at
from reenact.server.runtime import Server
from reenact.server.storage.agents import next_command
from reenact.server.storage.database import Scope
from reenact.server.storage.replays import add_command, add_replay
from reenact.server.storage.rows import pack

__all__ = ["issue", "send"]

_MOST_CHANGES: Final = 24_000
"""Bytes of a patch in a record. A record has room for no more than 65,536."""


async def issue(caller: Caller, scope: Scope, plan: Plan, batch: str = "") -> str:
    """The id of the replay that is now requested, as a part of ``batch`` if there is one. In the
    transaction of ``scope``."""
    server, now = caller.server, caller.server.now()
    command = _command(server, scope.tenant, plan, now)
    asked = edits(plan.exchange.start, plan.payload, plan.wanted)
    document = await send(server, scope, command, now)
    record = await _intent(
        caller, scope, plan, command.replay_id, digest_bytes(document), asked, batch
    )
    seq = await server.auditor.write(scope, record)
    await add_replay(scope, _row(caller, plan, command, now, seq, asked))
    return command.replay_id


async def send(server: Server, scope: Scope, command: Command, now: int) -> bytes:
    """Sign ``command`` and put it into the outbox; gives what will be sent."""
    document = msgspec.json.encode(sign(command, server.signer))
    await add_command(
        scope,
        {
            "agent_id": command.agent_id,
            "number": await next_command(scope, command.agent_id),
            "command_id": command.command_id,
            "replay_id": command.replay_id,
            "type": command.type,
            "document": document,
            "created_at": now,
            "expires_at": command.expires_at,
        },
    )
    return document


def _command(server: Server, tenant: str, plan: Plan, now: int) -> Command:
    deadline = deadline_of(now, server.timings)
    trace, span = server.secret(16).hex(), server.secret(8).hex()
    return Command(
        command_id=server.new_id("cmd"),
        replay_id=server.new_id("rpl"),
        tenant=tenant,
        agent_id=plan.agent.agent_id,
        issued_at=now,
        expires_at=due_at("requested", now, deadline, server.timings),
        nonce=server.secret(16).hex(),
        source_exchange_id=plan.exchange.exchange_id,
        route_id=plan.exchange.route_id,
        revision=plan.exchange.revision if plan.wanted.revision == "same" else "",
        modified_payload=plan.edited,
        payload_digest=payload_digest(plan.payload),
        boundaries=plan.wanted.boundaries,
        strict=plan.wanted.strict,
        environment_variables=plan.wanted.environment_variables,
        depth=plan.depth,
        deadline=deadline,
        trace_parent=f"00-{trace}-{span}-01",
    )


async def _intent(
    caller: Caller,
    scope: Scope,
    plan: Plan,
    replay_id: str,
    command_digest: str,
    asked: tuple[Edit, ...],
    batch: str,
) -> Record:
    """No value is in a record: digests, whose salts can be erased, of values without secrets."""
    remember = caller.server.auditor.remember
    changes = await _changes(caller.server, scope, asked)
    exchange, wanted = plan.exchange, plan.wanted
    contained = effective_containment(containment_of(plan.agent), wanted.boundaries)
    details = details_of(contained, wanted.environment_variables)
    if batch:
        details["batch"] = batch
    if plan.decision.permission != plan.goal.permission:
        details["executePermission"] = plan.goal.permission
    if asked and not changes:
        details["patch"] = f"{len(asked)} operations, not listed"
    return Record(
        tenant=scope.tenant,
        actor=actor_of(caller.principal),
        action="replay.requested",
        env=plan.goal.place.environment or "",
        source=Source(
            exchange.exchange_id, plan.source.digest, exchange.route_id, exchange.revision
        ),
        target=Target(plan.agent.agent_id, plan.agent.app, plan.revision),
        replay_id=replay_id,
        boundaries=wanted.boundaries,
        patch=changes,
        payload_digest_before=await remember(scope, msgspec.to_builtins(exchange.start)),
        payload_digest_after=await remember(scope, hidden(msgspec.to_builtins(plan.payload))),
        command_digest=command_digest,
        reason=clean_text(wanted.reason),
        permission=plan.decision.permission,
        tier=caller.principal.tenant.tier,
        details=details,
    )


async def _changes(server: Server, scope: Scope, asked: tuple[Edit, ...]) -> tuple[Change, ...]:
    if len(msgspec.json.encode([(one.op, one.path, one.from_) for one in asked])) > _MOST_CHANGES:
        return ()
    if len(asked) * 240 > _MOST_CHANGES:
        return ()
    return tuple([await _change(server, scope, one) for one in asked])


async def _change(server: Server, scope: Scope, one: Edit) -> Change:
    return Change(
        one.op,
        one.path,
        one.from_,
        await _digest(server, scope, one.before, one.path),
        await _digest(server, scope, one.after, one.path),
    )


async def _digest(server: Server, scope: Scope, value: Any, path: str) -> str:
    if value is msgspec.UNSET:
        return ""
    return await server.auditor.remember(scope, hidden(value, path))


def _row(
    caller: Caller, plan: Plan, command: Command, now: int, seq: int, asked: tuple[Edit, ...]
) -> dict[str, Any]:
    wanted = plan.wanted
    return {
        "replay_id": command.replay_id,
        "source_exchange_id": command.source_exchange_id,
        "exchange_id": "",
        "state": "requested",
        "code": "",
        "message": "",
        "requested_at": now,
        "delivered_at": 0,
        "started_at": 0,
        "ended_at": 0,
        "due_at": command.expires_at,
        "deadline": command.deadline,
        "agent_id": command.agent_id,
        "app": plan.agent.app,
        "environment": plan.agent.environment,
        "route_id": command.route_id,
        "boundaries": wanted.boundaries,
        "strict": int(wanted.strict),
        "environment_variables": wanted.environment_variables,
        "containment": msgspec.json.encode(
            effective_containment(containment_of(plan.agent), wanted.boundaries)
        ).decode(),
        "revision": wanted.revision,
        "reason": clean_text(wanted.reason),
        "patch": pack([_shown(one) for one in asked]),
        "payload": pack(plan.payload),
        "redacted": msgspec.json.encode(plan.unfilled).decode(),
        "requested_by": caller.principal.name or caller.principal.id,
        "actor": msgspec.json.encode(actor_of(caller.principal)).decode(),
        "permission": plan.decision.permission,
        "depth": plan.depth,
        "verdict": "",
        "cause": "",
        "ending": "",
        "http_status": 0,
        "audit_seq": seq,
        "result_seq": 0,
    }


def _shown(one: Edit) -> dict[str, Any]:
    shown: dict[str, Any] = {"op": one.op, "path": one.path}
    if one.from_:
        shown["from"] = one.from_
    if one.after is not msgspec.UNSET and one.op != "remove":
        shown["value"] = hidden(one.after, one.path)
    return shown
