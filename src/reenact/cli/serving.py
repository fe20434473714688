"""``serve``: the server, in this process, until it is told to stop."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from reenact.cli.render import count
from reenact.errors import ExtraMissing, UsageError

__all__ = ["serve"]

_NEEDED = ("starlette", "uvicorn", "sqlalchemy", "aiosqlite", "alembic", "cryptography", "jwt")


def serve(args: argparse.Namespace) -> int:
    """The command ``serve``."""
    try:
        from reenact.server.oidc.settings import read_settings
        from reenact.server.serving import ServeOptions
        from reenact.server.serving import serve as run
        from reenact.server.telemetry.targets import read_targets
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _NEEDED:
            raise ExtraMissing("the server", "server") from None
        raise
    if args.demo:
        from reenact.server.demo.running import serve_demo

        return serve_demo(args.host, args.port)
    database = args.database or os.environ.get("REENACT_DATABASE", "")
    if args.migrate_only:
        return _migrate(Path(args.data), database, args.role)
    if args.rotate_audit_key:
        return _rotate(Path(args.data), database)
    if args.role:
        raise UsageError("--role is for --migrate-only", hint="leave it out, or say both")
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

    from reenact.server.opening import migrate_only

    asyncio.run(migrate_only(data, database=database, role=role))
    served = f", and {role} may serve with it" if role else ""
    print(f"the database is up to date{served}", file=sys.stderr)
    return 0


def _rotate(data: Path, database: str) -> int:
    import asyncio

    from reenact.server.rotating import rotate_audit_key

    key, logs = asyncio.run(rotate_audit_key(data, database=database))
    print(
        f"{count(logs, 'audit log')} handed over to the key {key}; its seed is in {data / 'keys'}",
        file=sys.stderr,
    )
    return 0
