"""Pictures of the server's pages, for the README and the guides. They are taken on the way of a test.

With ``REENACT_KEEP_PICTURES=1`` (``make pictures``) what a test sees is kept; otherwise it only looks.
"""

from __future__ import annotations

import os
from typing import Any, Final

from tests.browser.reading import flaws_of
from tests.conftest import ROOT

__all__ = ["MOST", "SIZES", "picture"]

SIZES: Final = {
    "page-history": (1200, 600),
    "page-exchange": (1200, 860),
    "page-talk": (1200, 910),
    "page-related": (1200, 800),
    "page-edit": (1100, 1070),
    "page-replay": (1200, 990),
    "page-batch": (1200, 850),
    "page-audit": (1200, 720),
}
"""By name, in pixels."""

MOST: Final = 150_000
"""Bytes of a picture."""

_KEEPS: Final = os.environ.get("REENACT_KEEP_PICTURES", "") not in ("", "0")
_FOLDER: Final = ROOT / "docs" / "pictures"


def picture(page: Any, name: str, *, dark: bool = False, top: str = "h1") -> None:
    """Looks at what ``page`` shows, as large as the picture ``name``, from the heading ``top`` on: the
    first is that of the page, and what is above it is shown as well."""
    width, height = SIZES[name]
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme="dark" if dark else "light")
    page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
    if top != "h1":
        page.locator(top).first.evaluate("one => one.scrollIntoView()")
    assert flaws_of(page) == []
    if _KEEPS:
        shot = page.screenshot(path=_FOLDER / f"{name}.png")
        assert len(shot) <= MOST, f"{name}.png is too large for the repo: show less"
