"""The routes of a Django project, as its URL resolver knows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final

from reenact.exchange.matching import HttpRoute

__all__ = ["DjangoMap", "is_django"]

_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
"""What a view function may be called with: Django routes by path alone."""
_DEEPEST: Final = 50


def is_django(app: Any) -> bool:
    """Is ``app`` the WSGI or ASGI application of a Django project?"""
    return any(kind.__module__.startswith("django.core.handlers.") for kind in type(app).__mro__)


class DjangoMap:
    """See :class:`reenact.exchange.matching.Map`. Templates are spelled as in ``urls.py``, with a
    leading slash: ``/orders/<int:number>/``."""

    def routes(self) -> Iterable[HttpRoute]:
        """See :class:`reenact.exchange.matching.Map`."""
        return list(_flat(_urls().get_resolver().url_patterns, "/", 0))

    def template_of(self, method: str, path: str, root: str) -> str | None:
        """See :class:`reenact.exchange.matching.Map`."""
        urls = _urls()
        inner = path.removeprefix(root) if root else path
        try:
            found = urls.resolve(inner or "/")
        except urls.Resolver404:
            return None
        return f"/{found.route}" if method in _methods_of(found.func) else None


def _urls() -> Any:
    """Django has no type information."""
    return import_module("django.urls")


def _flat(patterns: Iterable[Any], prefix: str, depth: int) -> Iterator[HttpRoute]:
    for pattern in patterns:
        template = f"{prefix}{pattern.pattern}"
        below = getattr(pattern, "url_patterns", None)
        if below is None:
            yield HttpRoute(template, _methods_of(pattern.callback), pattern.callback)
        elif depth < _DEEPEST:
            yield from _flat(below, template, depth + 1)


def _methods_of(view: Any) -> frozenset[str]:
    """A view class names its methods; a view function takes all."""
    kind = getattr(view, "view_class", None)
    if kind is None:
        return _METHODS
    named = {name.upper() for name in kind.http_method_names if hasattr(kind, name)}
    return frozenset(named | ({"HEAD"} if "GET" in named else set()))
