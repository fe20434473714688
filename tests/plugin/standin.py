"""How the tests run pytest within pytest: with the plugin, and without those that take their time."""

from __future__ import annotations

ARGUMENTS = (
    "-p",
    "no:cacheprovider",
    "-p",
    "reenact.pytest_plugin",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",  # it is imported already
)

CONFTEST = ""
