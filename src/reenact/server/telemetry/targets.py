"""Telemetry targets of tenants: the option ``reenact serve --otlp-endpoint``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from reenact.errors import UsageError
from reenact.interop.otel_protobuf import need_protobuf
from reenact.server.outgoing_http import check_url

__all__ = ["EVERY_TENANT", "ExportTarget", "read_targets", "target_of"]

EVERY_TENANT: Final = ""
_TRACES: Final = "/v1/traces"
_NAMED: Final = re.compile(r"(?P<tenant>[A-Za-z0-9._~:@ -]{1,128})=(?P<rest>.*)", re.DOTALL)
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~]*?)[ \t]*")
_OURS: Final = frozenset({"content-type", "content-encoding", "content-length", "host"})


class ExportTarget(msgspec.Struct, frozen=True):
    """``url`` takes OTLP; ``headers`` go with every request, and may hold a secret."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"ExportTarget({self.url})"


def target_of(targets: dict[str, ExportTarget], tenant: str, name: str = "") -> ExportTarget | None:
    """Return the target of the tenant with this id and name, otherwise the common target."""
    for one in (tenant, name, EVERY_TENANT):
        if one in targets:
            return targets[one]
    return None


def read_targets(endpoints: Iterable[str], files: Iterable[str]) -> dict[str, ExportTarget]:
    """``endpoints`` are ``[TENANT=]URL``, ``files`` with headers ``[TENANT=]FILE``. A tenant that has
    an endpoint of its own gets none of the headers for the others. Raises :class:`UsageError`."""
    urls = _by_tenant(endpoints, "--otlp-endpoint")
    headers = _by_tenant(files, "--otlp-headers-file")
    for tenant in headers.keys() - urls.keys():
        raise UsageError(
            f"there are headers for {_shown(tenant)}, and no endpoint",
            hint=f"--otlp-endpoint {f'{tenant}=' if tenant else ''}https://collector.example",
        )
    if urls:
        need_protobuf()
    return {
        tenant: ExportTarget(
            _traces(check_url(url, "--otlp-endpoint")),
            _read_headers(Path(headers[tenant])) if tenant in headers else (),
        )
        for tenant, url in urls.items()
    }


def _by_tenant(texts: Iterable[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        named = _NAMED.fullmatch(text)
        has_tenant = named is not None and "://" not in text.partition("=")[0]
        tenant, rest = (named["tenant"], named["rest"]) if named and has_tenant else ("", text)
        if tenant in found:
            raise UsageError(f"{option} is given twice for {_shown(tenant)}", hint="give it once")
        found[tenant] = rest
    return found


def _shown(tenant: str) -> str:
    return f"the tenant {tenant}" if tenant else "all tenants"


def _traces(url: str) -> str:
    """With the path of OTLP behind it, as exporters put it there."""
    base = url.rstrip("/")
    return base if base.endswith(_TRACES) else f"{base}{_TRACES}"


def _read_headers(path: Path) -> tuple[tuple[str, str], ...]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UsageError(
            f"the headers cannot be read: {path}", hint="a file with lines such as Authorization: …"
        ) from None
    return tuple(_header(line, path, number) for number, line in enumerate(lines, 1) if line)


def _header(line: str, path: Path, number: int) -> tuple[str, str]:
    found = _HEADER.fullmatch(line)
    if found is None or found[1].lower() in _OURS:
        raise UsageError(f"line {number} of {path} is not a valid header", hint="use Name: value")
    return found[1], found[2]
