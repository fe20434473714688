"""What a page must have for everybody who reads it, looked for in the page itself."""

from __future__ import annotations

from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import pytest

from tests.browser.conftest import Page
from tests.frameworks.environments import IN_CI

__all__ = [
    "BOTH",
    "FAINT",
    "FLAWS",
    "SCREENS",
    "Screen",
    "flaws_of",
    "look_at",
    "unfold",
    "violations_at",
    "violations_of",
]

Screen = tuple[str, int]
SCREENS: tuple[Screen, ...] = (("light", 1280), ("light", 390), ("dark", 1280), ("dark", 390))
"""Colours, and how wide."""
BOTH = (SCREENS[0], SCREENS[3])
"""A wide screen in the light and a narrow one in the dark: every colour and every width once."""

_UNFOLD = "document.querySelectorAll('details:nth-of-type(-n + 40)').forEach((one) => { one.open = true; })"
_AXE = """async () => (await axe.run(document, {
  resultTypes: ["violations"],
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
})).violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 200)} (${one.nodes.length})`)"""

FLAWS = """() => {
  const found = [];
  const say = (what, one) => found.push(`${what}: ${one.outerHTML.slice(0, 160)}`);
  const all = (where) => [...document.querySelectorAll(where)];
  const named = (one) => (one.labels?.length && one.labels[0].textContent.trim()) || one.getAttribute("aria-label")
    || one.textContent.trim() || one.title;
  if (!document.documentElement.lang) found.push("the page has no language");
  if (!document.title) found.push("the page has no title");
  if (all("h1").length !== 1) found.push(`there are ${all("h1").length} first headings`);
  if (all("main").length !== 1) found.push("there is not one main part");
  for (const one of all("input:not([type=hidden]), select, textarea, button, a[href]")) if (!named(one)) say("no name", one);
  for (const one of all("nav")) if (!one.getAttribute("aria-label")) say("no name", one);
  for (const one of all("svg")) if (one.getAttribute("aria-hidden") !== "true" && !one.querySelector("title")) say("no title", one);
  for (const one of all("table.list, table.both")) if (!one.caption) say("no caption", one);
  for (const one of all("[tabindex]")) if (Number(one.tabIndex) > 0) say("order of its own", one);
  for (const one of all("details")) if (one.firstElementChild?.tagName !== "SUMMARY") say("no summary", one);
  const ids = all("[id]").map((one) => one.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) found.push(`the id ${id} is there twice`);
  let level = 1;
  for (const one of all("h1, h2, h3, h4")) {
    const now = Number(one.tagName[1]);
    if (now > level + 2) say("a heading that skips", one);
    level = now;
  }
  if (document.documentElement.scrollWidth > innerWidth) {
    const wide = all("main *").filter((one) => one.getBoundingClientRect().right > innerWidth && !one.closest(".scroll *, pre *"));
    say(`it is ${document.documentElement.scrollWidth} wide`, wide.at(-1) ?? document.body);
  }
  return found;
}"""

FAINT = """() => {
  const parts = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; })
    .reduce((sum, v, at) => sum + v * [.2126, .7152, .0722][at], 0);
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const color = parts(getComputedStyle(one).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0] : [255, 255, 255];
  };
  const found = [];
  for (const one of document.querySelectorAll("body *:not(svg *)")) {
    const words = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!words || !one.checkVisibility() || one.closest(".unseen, .skip, select, :disabled")) continue;
    const [a, b] = [light(parts(getComputedStyle(one).color)), light(behind(one))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(1)} ${one.outerHTML.slice(0, 120)}`);
  }
  return found;
}"""


def flaws_of(page: Any) -> list[str]:
    """In words; nothing where all is well."""
    found: list[str] = [*page.evaluate(FLAWS), *page.evaluate(FAINT)]
    return found


def violations_of(page: Any) -> list[str]:
    """What axe finds against WCAG 2.1 A and AA, and against good practice. It is evaluated by the
    browser's own tools, as our policy lets no script in."""
    if find_spec("axe_playwright_python") is None:
        hint = "there is no axe here: pip install axe-playwright-python"
        pytest.fail(hint) if IN_CI else pytest.skip(hint)
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    found: list[str] = page.evaluate(_AXE)
    return found


def unfold(page: Any) -> None:
    """What is folded, too."""
    page.evaluate(_UNFOLD)


def look_at(page: Any, screen: Screen) -> None:
    """In these colours and this wide from now on."""
    scheme, width = screen
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)


def violations_at(page: Page, address: str, screen: Screen) -> list[str]:
    """The same, of what is at ``address``, with all of it unfolded."""
    look_at(page.page, screen)
    page.open(address)
    unfold(page.page)
    return violations_of(page.page)
