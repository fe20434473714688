"""Which route a request takes: by the templates of the app's own routes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec

from reenact.exchange.desk import Desk
from reenact.exchange.model import Payload, Route
from reenact.exchange.passage import Outcome
from reenact.exchange.revision import Definition, define

__all__ = ["UNMATCHED", "HttpRoute", "Map", "StarletteMap", "Table"]

UNMATCHED: Final = "(unmatched)"
_DEEPEST: Final = 50


class HttpRoute(msgspec.Struct, frozen=True):
    """One path template of an app."""

    template: str
    methods: frozenset[str]
    endpoint: Callable[..., Any] | None


class Map(Protocol):
    """The routes of an app as its framework knows them."""

    def routes(self) -> Iterable[HttpRoute]:
        """All of them."""

    def template_of(self, method: str, path: str, root: str) -> str | None:
        """Of the route that such a request takes; ``path`` begins with ``root``, under which the
        app is."""


class Table:
    """The routes of one app, looked at anew: apps add some while they start."""

    def __init__(self, app_routes: Map, desk: Desk) -> None:
        self._map = app_routes
        self._desk = desk
        self._defined: dict[str, Definition] = {}

    def route_of(self, start: Payload) -> str:
        """``POST /orders/{id}``: the route that a request takes."""
        given = start.properties
        method = str(given.get("http.method", "GET"))
        path, root = str(given.get("http.path", "/")), str(given.get("http.root", ""))
        return f"{method} {self._map.template_of(method, path, root) or UNMATCHED}"[:512]

    def routes(self) -> tuple[Route, ...]:
        """All of them, each method by itself."""
        found: dict[str, Route] = {}
        for route in self._map.routes():
            for method in sorted(route.methods):
                route_id = f"{method} {route.template}"[:512]
                made = self._define(route_id, route.endpoint)
                found.setdefault(
                    route_id,
                    Route(
                        route_id=route_id,
                        revision=made.revision,
                        kind="http",
                        processors=made.processors,
                    ),
                )
        return tuple(found.values())

    def definition(self, route_id: str) -> Definition:
        """Of a route, or of what is none."""
        if route_id not in self._defined:
            self.routes()
        return self._define(route_id, None)

    def _define(self, route_id: str, endpoint: Callable[..., Any] | None) -> Definition:
        known = self._defined.get(route_id)
        if known is None:
            handlers = () if endpoint is None else (endpoint,)
            known = self._defined[route_id] = define(route_id, "http", self._desk.version, handlers)
        return known

    def judged(self, route_id: str, outcome: Outcome) -> Outcome:
        """``outcome`` of a request that took ``route_id``. Without a route it is not replayable."""
        if not route_id.endswith(f" {UNMATCHED}"):
            return outcome
        unfit = "it matched no route of the app, and a replay needs one"
        return msgspec.structs.replace(outcome, unfit=unfit)

    def objection(self, route_id: str, payload: Payload) -> str:
        """Why a request that is edited does not take the route any more."""
        taken = self.route_of(payload)
        return "" if taken == route_id else f"its path leads to {taken} now"


class StarletteMap:
    """Of a Starlette or FastAPI app, behind its middleware; empty for another app."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def routes(self) -> Iterable[HttpRoute]:
        """See :class:`Map`."""
        return list(_flat(_routes_of(self._app), ""))

    def template_of(self, method: str, path: str, root: str) -> str | None:
        """See :class:`Map`."""
        scope = {"type": "http", "method": method, "path": path, "root_path": root, "headers": []}
        return _matched(_routes_of(self._app), {**scope, "path_params": {}}, 0)


def _routes_of(app: Any) -> list[Any]:
    for _ in range(_DEEPEST):
        routes = getattr(app, "routes", None)
        if isinstance(routes, list):
            return routes
        app = getattr(app, "app", None)
        if app is None:
            break
    return []


def _flat(routes: Sequence[Any], prefix: str) -> Iterator[HttpRoute]:
    """Routes, and those of what is mounted, however deep."""
    for route in routes:
        path, inner = getattr(route, "path", None), getattr(route, "routes", None)
        if not isinstance(path, str) or prefix.count("/") > _DEEPEST:
            continue
        if hasattr(route, "methods"):
            methods = frozenset(route.methods or ("GET",))
            yield HttpRoute(prefix + path, methods, getattr(route, "endpoint", None))
        elif isinstance(inner, list):
            yield from _flat(inner, prefix + path)


_full: Final[dict[Any, Any]] = {}
"""The member for a complete match, by the class of members, which is Starlette's ``Match``. Reading
the name of a member takes as long as matching a route."""


def _is_full(match: Any) -> bool:
    kind = type(match)
    found = _full.get(kind)
    if found is None:
        found = _full[kind] = kind["FULL"]
    return match is found


def _matched(routes: Sequence[Any], scope: dict[str, Any], depth: int) -> str | None:
    """What the router would do, and the templates on the way."""
    for route in routes:
        if depth > _DEEPEST or not hasattr(route, "matches"):
            continue
        match, child = route.matches(scope)
        if not _is_full(match):
            continue
        path, inner = str(getattr(route, "path", "")), getattr(route, "routes", None)
        if hasattr(route, "methods") or not isinstance(inner, list):
            return path or None
        below = _matched(inner, {**scope, **child}, depth + 1)
        return None if below is None else path + below
    return None
