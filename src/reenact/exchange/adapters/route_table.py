"""Path templates of the routes of an HTTP app, as its framework resolves them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final, Protocol

import msgspec

from reenact.exchange.active_exchange import ExchangeEnd
from reenact.exchange.model import Payload, Route
from reenact.exchange.recorder import ExchangeRecorder
from reenact.exchange.route_revision import Definition, define

__all__ = [
    "UNMATCHED",
    "DjangoResolver",
    "FlaskResolver",
    "HttpRoute",
    "RouteResolver",
    "RouteTable",
    "StarletteResolver",
    "is_django",
]

UNMATCHED: Final = "(unmatched)"
_DEEPEST: Final = 50


class HttpRoute(msgspec.Struct, frozen=True):
    """One path template of an app."""

    template: str
    methods: frozenset[str]
    endpoint: Callable[..., Any] | None


class RouteResolver(Protocol):
    """Routes of an app, as its framework resolves them."""

    def routes(self) -> Iterable[HttpRoute]:
        """Return all routes."""

    def template_of(self, method: str, path: str, root: str) -> str | None:
        """Return the template for a request. ``path`` begins with ``root``, the path under which
        the app is mounted."""


class RouteTable:
    """Routes of one app. They are read again each time, because apps add routes while they start."""

    def __init__(self, app_routes: RouteResolver, recorder: ExchangeRecorder) -> None:
        self._map = app_routes
        self._recorder = recorder
        self._defined: dict[str, Definition] = {}

    def route_of(self, start: Payload) -> str:
        """Return the route of a request, such as ``POST /orders/{id}``."""
        given = start.properties
        method = str(given.get("http.method", "GET"))
        path, root = str(given.get("http.path", "/")), str(given.get("http.root", ""))
        return f"{method} {self._map.template_of(method, path, root) or UNMATCHED}"[:512]

    def routes(self) -> tuple[Route, ...]:
        """Return all routes, one for each method."""
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
        """Return the definition of a route. An unknown route has no code."""
        if route_id not in self._defined:
            self.routes()
        return self._define(route_id, None)

    def _define(self, route_id: str, endpoint: Callable[..., Any] | None) -> Definition:
        known = self._defined.get(route_id)
        if known is None:
            handlers = () if endpoint is None else (endpoint,)
            known = self._defined[route_id] = define(
                route_id, "http", self._recorder.version, handlers
            )
        return known

    def judged(self, route_id: str, outcome: ExchangeEnd) -> ExchangeEnd:
        """Return ``outcome``, marked as not replayable if the request matched no route."""
        if not route_id.endswith(f" {UNMATCHED}"):
            return outcome
        unfit = "it matched no route of the app, and a replay needs one"
        return msgspec.structs.replace(outcome, unfit=unfit)

    def objection(self, route_id: str, payload: Payload) -> str:
        """Return the reason why an edited request does not take the route, or an empty string."""
        taken = self.route_of(payload)
        return "" if taken == route_id else f"its path leads to {taken} now"


class StarletteResolver:
    """Routes of a Starlette or FastAPI app behind its middleware. Empty for other apps."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def routes(self) -> Iterable[HttpRoute]:
        """Return the current routes."""
        return list(_flat(_routes_of(self._app), ""))

    def template_of(self, method: str, path: str, root: str) -> str | None:
        """Return the template for a request."""
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
    """Yield routes, including the routes of mounted apps."""
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
"""``Match.FULL`` of Starlette by its class. Reading the name of an enum member takes as long as
matching a route."""


def _is_full(match: Any) -> bool:
    kind = type(match)
    found = _full.get(kind)
    if found is None:
        found = _full[kind] = kind["FULL"]
    return match is found


def _matched(routes: Sequence[Any], scope: dict[str, Any], depth: int) -> str | None:
    """Return the template that Starlette's router would choose."""
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


_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
"""Methods of a view function. Django routes by path only."""


def is_django(app: Any) -> bool:
    """Return whether ``app`` is the WSGI or ASGI application of a Django project."""
    return any(kind.__module__.startswith("django.core.handlers.") for kind in type(app).__mro__)


class DjangoResolver:
    """Routes of a Django project. Templates are spelled as in ``urls.py``, with a leading slash:
    ``/orders/<int:number>/``."""

    def routes(self) -> Iterable[HttpRoute]:
        """Return the current routes."""
        return list(_django_routes(_urls().get_resolver().url_patterns, "/", 0))

    def template_of(self, method: str, path: str, root: str) -> str | None:
        """Return the template for a request."""
        urls = _urls()
        inner = path.removeprefix(root) if root else path
        try:
            found = urls.resolve(inner or "/")
        except urls.Resolver404:
            return None
        return f"/{found.route}" if method in _methods_of(found.func) else None


def _urls() -> Any:
    return import_module("django.urls")


def _django_routes(patterns: Iterable[Any], prefix: str, depth: int) -> Iterator[HttpRoute]:
    for pattern in patterns:
        template = f"{prefix}{pattern.pattern}"
        below = getattr(pattern, "url_patterns", None)
        if below is None:
            yield HttpRoute(template, _methods_of(pattern.callback), pattern.callback)
        elif depth < _DEEPEST:
            yield from _django_routes(below, template, depth + 1)


def _methods_of(view: Any) -> frozenset[str]:
    """Return the methods of a view class, or all methods for a function."""
    kind = getattr(view, "view_class", None)
    if kind is None:
        return _METHODS
    named = {name.upper() for name in kind.http_method_names if hasattr(kind, name)}
    return frozenset(named | ({"HEAD"} if "GET" in named else set()))


class FlaskResolver:
    """Routes of a Flask app, given itself or its ``wsgi_app``. Empty for other apps."""

    def __init__(self, app: Any) -> None:
        self._owner = app if hasattr(app, "url_map") else getattr(app, "__self__", None)

    def routes(self) -> Iterable[HttpRoute]:
        """Return the current routes."""
        rules = getattr(self._owner, "url_map", None)
        if rules is None:
            return []
        views = getattr(self._owner, "view_functions", {})
        return [
            HttpRoute(rule.rule, frozenset(rule.methods or ("GET",)), views.get(rule.endpoint))
            for rule in rules.iter_rules()
        ]

    def template_of(self, method: str, path: str, root: str) -> str | None:
        """Return the template for a request. A WSGI path does not contain the root."""
        rules = getattr(self._owner, "url_map", None)
        if rules is None:
            return None
        from werkzeug.exceptions import HTTPException

        try:
            rule, _ = rules.bind("localhost").match(path, method=method, return_rule=True)
        except HTTPException:  # nothing there, another method, or a slash too few
            return None
        return str(rule.rule)
