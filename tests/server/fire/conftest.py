"""A server that can be killed, an app with its agent, and an operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.server.databases import DATABASES
from tests.server.fire.operating import Operator
from tests.server.fire.running import AppLives, Keys, ServerLives, Site, closing, until


class Scene(msgspec.Struct, frozen=True):
    """All of them, connected. ``source`` is the id of an exchange that can be replayed."""

    folder: Path
    site: Site
    keys: Keys
    server: ServerLives
    app: AppLives
    operator: Operator
    source: str


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """The server lives its first life, and the app has done one thing."""
    site = Site(tmp_path, DATABASES.address(tmp_path / "data"))
    server = ServerLives(site)
    with closing(server):
        keys = site.furnish(server.serve())
        app = AppLives(tmp_path / "app", site.url, keys.agent)
        operator = Operator(site.url, keys.operator)
        with closing(app, operator):
            app.start()
            until(app.is_connected)
            app.order("first")
            (source,) = until(lambda: operator.listed("/api/v1/exchanges"))
            yield Scene(
                folder=tmp_path,
                site=site,
                keys=keys,
                server=server,
                app=app,
                operator=operator,
                source=source["exchangeId"],
            )
