"""The ``serve`` command: run the server in this process."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from reenact.cli._output import count
from reenact.cli._parser import Command, argument, json_flag, number, takes
from reenact.errors import ExtraMissing, UsageError

__all__ = ["COMMANDS"]

_NEEDED = ("starlette", "uvicorn", "sqlalchemy", "aiosqlite", "alembic", "cryptography", "jwt")


def serve(args: argparse.Namespace) -> int:
    try:
        from reenact.server.auth.oidc.provider import read_settings
        from reenact.server.process.serve import ServeOptions
        from reenact.server.process.serve import serve as run
        from reenact.server.telemetry.targets import read_targets
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _NEEDED:
            raise ExtraMissing("the server", "server") from None
        raise
    if args.demo:
        from reenact.server.demo.server import serve_demo

        return serve_demo(args.host, args.port)
    database = args.database or os.environ.get("REENACT_DATABASE", "")
    if args.migrate_only:
        return _migrate(Path(args.data), database, args.role)
    if args.rotate_audit_key:
        return _rotate(Path(args.data), database)
    if args.role:
        raise UsageError("--role requires --migrate-only", hint="leave it out, or use both")
    return run(
        ServeOptions(
            host=args.host,
            port=args.port,
            data=Path(args.data),
            database=database,
            blobs=args.blobs or os.environ.get("REENACT_BLOBS", ""),
            name=args.name,
            insecure=args.insecure,
            forwarded=args.forwarded,
            public_url=args.public_url or os.environ.get("REENACT_PUBLIC_URL", ""),
            log=args.log,
            exports=read_targets(args.otlp_endpoint, args.otlp_headers_file),
            oidc=read_settings(
                args.oidc_issuer or "",
                args.oidc_client_id or "",
                args.oidc_client_secret_file or "",
                args.oidc_tenant or "",
            ),
        )
    )


def _migrate(data: Path, database: str, role: str) -> int:
    import asyncio

    from reenact.server.process.startup import migrate_only

    asyncio.run(migrate_only(data, database=database, role=role))
    served = f", and {role} may serve with it" if role else ""
    print(f"the database is up to date{served}", file=sys.stderr)
    return 0


def _rotate(data: Path, database: str) -> int:
    import asyncio

    from reenact.server.process.startup import rotate_audit_key

    key, logs = asyncio.run(rotate_audit_key(data, database=database))
    print(
        f"{count(logs, 'audit log')} handed over to the key {key}; its seed is in {data / 'keys'}",
        file=sys.stderr,
    )
    return 0


COMMANDS = {
    "serve": Command(
        description="Runs a server on SQLite and a folder: no configuration. The first start prints a link with "
        "which to make the first account. Several servers can share a PostgreSQL database.",
        example="reenact serve --port 8321 --data reenact-server",
        arguments=takes(
            argument("--host HOST", "the address to listen on", default="127.0.0.1"),
            argument(
                "--port PORT",
                "the port, 0 for any that is free (default: 8321)",
                type=number,
                default=8321,
            ),
            argument("--data DIR", "the folder for everything it keeps", default="reenact-server"),
            argument(
                "--database URL",
                "postgresql://user@host/name, for several servers at once; otherwise REENACT_DATABASE, "
                "otherwise a file in that folder",
            ),
            argument(
                "--blobs PLACE",
                "where recordings go: a folder or s3://bucket/prefix; otherwise REENACT_BLOBS, "
                "otherwise that folder",
            ),
            argument(
                "--migrate-only",
                "make the tables of the database, or bring them up to date, and end",
            ),
            argument(
                "--role ROLE",
                "with --migrate-only on PostgreSQL: the role of the servers, which may then use the "
                "tables and change none",
                default="",
            ),
            argument(
                "--rotate-audit-key",
                "while no server runs: hand the audit logs over to a new signing key, and end",
            ),
            argument("--name NAME", "the name of this deployment in its audit logs", default=""),
            argument(
                "--insecure",
                "let other machines connect over plain HTTP: everybody on the way can read along",
            ),
            argument(
                "--forwarded", "believe a proxy on this machine about where requests come from"
            ),
            argument(
                "--public-url URL",
                "the address under which browsers reach the server, for links; otherwise "
                "REENACT_PUBLIC_URL, otherwise the address that it listens on",
            ),
            argument(
                "--log",
                "what the log on stderr is: lines to read, or one JSON object each",
                choices=("text", "json"),
                default="text",
            ),
            argument(
                "--oidc-issuer URL",
                "an OpenID provider with which people can sign in, as it spells itself",
            ),
            argument("--oidc-client-id ID", "who this server is to the provider"),
            argument(
                "--oidc-client-secret-file FILE",
                "the file with the secret that proves it; none for a public client",
            ),
            argument(
                "--oidc-tenant TENANT",
                "the only tenant, by name or id, whose accounts the provider may open",
            ),
            argument(
                "--otlp-endpoint [TENANT=]URL...",
                "send exchanges there as traces, over OTLP/HTTP; a tenant by name or id (repeatable: "
                "one per tenant)",
            ),
            argument(
                "--otlp-headers-file [TENANT=]FILE...",
                "headers to send along, one per line, such as Authorization: … (repeatable)",
            ),
            argument(
                "--demo", "run a demo server with a small shop; its data is deleted when it stops"
            ),
            json_flag("errors as JSON"),
        ),
        run=serve,
    )
}
