"""A server that can be killed, an app with its agent, and an operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.server.databases import DATABASES
from tests.server.fire.operating import Operator
from tests.server.fire.running import QUICK, AppLives, Keys, ServerLives, Site, closing, until


class Scene(msgspec.Struct, frozen=True):
    """All of them, connected. ``source`` is the id of an exchange that can be replayed."""

    folder: Path
    site: Site
    keys: Keys
    server: ServerLives
    app: AppLives
    operator: Operator
    source: str


@contextmanager
def staged(
    folder: Path,
    site: Site,
    front: str = "",
    timings: dict[str, float] | None = None,
    **limits: float,
) -> Iterator[Scene]:
    """The server lives its first life, and the app has done one thing. The app finds the server at
    ``front``, if that is somewhere else; ``limits`` are those of its link, ``timings`` those of the
    server where they are not the quick ones."""
    server = ServerLives(site)
    with closing(server):
        keys = site.furnish(server.serve(timings={**QUICK, **(timings or {})}))
        app = AppLives(folder / "app", front or site.url, keys.agent)
        operator = Operator(site.url, keys.operator)
        with closing(app, operator):
            app.start(**limits)
            until(app.is_connected)
            app.order("first")
            (source,) = until(lambda: operator.listed("/api/v1/exchanges"))
            yield Scene(
                folder=folder,
                site=site,
                keys=keys,
                server=server,
                app=app,
                operator=operator,
                source=source["exchangeId"],
            )


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """All of it, with nothing in between."""
    with staged(tmp_path, Site(tmp_path, DATABASES.address(tmp_path / "data"))) as made:
        yield made
