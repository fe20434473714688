"""Every page that the server has, and where a desk finds it."""

from __future__ import annotations

import re

from reenact.server.routes import ENDPOINTS

__all__ = ["ALL", "PLACES", "path_of", "routes"]

PLACES: dict[str, tuple[str, ...]] = {
    "/": ("/",),
    "/setup": ("/setup?token={setup}", "/setup?token=used"),
    "/invite": ("/invite?token={invite}", "/invite?token=used"),
    "/signin": ("/signin",),
    "/signin/oidc": ("/signin/oidc",),
    "/signin/oidc/callback": ("/signin/oidc/callback",),
    "/exchanges": ("/exchanges", "/exchanges?text=nothing&route=a", "/exchanges?from=never"),
    "/exchanges/{id}": ("/exchanges/ex-1", "/exchanges/nothing"),
    "/exchanges/{id}/related": ("/exchanges/ex-1/related",),
    "/exchanges/{id}/view": ("/exchanges/ex-1/view",),
    "/exchanges/{id}/replay": ("/exchanges/ex-1/replay",),
    "/exchanges/{a}/compare/{b}": ("/exchanges/ex-1/compare/other",),
    "/replays": ("/replays", "/replays?state=expired"),
    "/replays/{id}": ("/replays/{replay}", "/replays/{waiting}"),
    "/batches": ("/batches",),
    "/batches/new": ("/batches/new?text=%3Cscript%3E",),
    "/batches/{id}": ("/batches/{batch}",),
    "/searches": ("/searches",),
    "/searches/new": ("/searches/new?text=%3Cscript%3E",),
    "/noise": ("/noise", "/noise?app=shop&route=orders"),
    "/noise/hide": ("/noise/hide?a=ex-1&b=other&path=%2Fresult%2Fbody",),
    "/agents": ("/agents",),
    "/recordings": ("/recordings",),
    "/recordings/{id}/view": ("/recordings/{capture}/view",),
    "/audit": ("/audit",),
    "/audit/{seq}": ("/audit/1",),
    "/people": ("/people",),
    "/keys": ("/keys",),
    "/environments": ("/environments",),
    "/tenants": ("/tenants",),
    "/api/docs": ("/api/docs",),
}
"""Paths by their route. What is in braces is an id, see :func:`path_of`."""

ALL = tuple(path for those in PLACES.values() for path in those)


def routes() -> set[str]:
    """Of everything that a browser can open and show."""
    return {one.path for one in ENDPOINTS if one.method == "GET" and one.page} | {"/api/docs"}


def path_of(place: str, ids: dict[str, str]) -> str:
    """With ``ids`` in place of their names."""
    return re.sub(r"\{(\w+)\}", lambda part: ids[part[1]], place)
