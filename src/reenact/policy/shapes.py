"""Tokens that give themselves away by their shape, wherever they stand.

One table holds, for each shape, the exact pattern and the looser one of the gate. A gate pattern
is written for both engines (no look-around, no groups that capture) and must match whenever the
exact one does, also after the text was written as JSON, once or several times over.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator

import msgspec

from reenact.policy.names import CASELESS
from reenact.policy.patterns import late
from reenact.policy.searched import Searched

__all__ = ["EDGE", "GATE_EDGE", "SHAPES", "Shape"]

# A token starts where a run of base64url does not go on: a signature or an opaque id that happens
# to contain a prefix must survive. %20, and the colour codes of terminals, are no part of a run.
EDGE = (
    r"(?:(?<![A-Za-z0-9_\-])|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\[[0-9]m)|(?<=\[[0-9]{2}m)|(?<=;[0-9]m)|(?<=;[0-9]{2}m))"
)
GATE_EDGE = (
    r"(?:^|[^A-Za-z0-9_\-]|\\[nrtbf]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|%[0-9A-Fa-f]{2}|[0-9]m)"
)
_WORD_EDGE = rf"(?:(?<![A-Za-z0-9])|{EDGE})"
_SPACE = r"[ \t\r\n+]"
_GATE_SPACE = r"(?:[ \t\r\n+]|\\+[nrt]|%2[0Bb]|%0[9ADad])+"
_URL64 = r"[A-Za-z0-9_\-]"


class Shape(msgspec.Struct, frozen=True):
    """``needs``: one of these texts is in every match, in some case; they are written lower-case.

    ``exact`` is the pattern of the slow pass; the group ``s``, if there is one, is the secret, else
    the whole match is; with ``leads`` each match starts with one of ``needs``. ``gate`` is the
    pattern of the gate, in any case if ``caseless``; ``gate_needs`` stands for ``needs`` there,
    where those may be written with escapes. ``check`` has the last word.
    """

    id: str
    needs: tuple[str, ...]
    exact: re.Pattern[str]
    gate: str
    caseless: bool = False
    gate_needs: tuple[str, ...] = ()
    check: Callable[[str], bool] | None = None
    leads: bool = False

    def matches(self, searched: Searched) -> Iterator[re.Match[str]]:
        """Every match in the text."""
        needs = [need for need in self.needs if searched.has(need)]
        if needs and not (self.leads and searched.aligned):
            yield from self.exact.finditer(searched.text)
        else:
            for need in needs:
                yield from searched.matches(self.exact, need)


def _prefixed(
    name: str,
    needs: str,
    core: str,
    *,
    edge: bool = False,
    gate: str = "",
    gate_needs: str = "",
    leads: bool = True,
) -> Shape:
    """A token that starts with a prefix of its own.

    ``edge``: the gate, too, looks before it, because the prefix is short, or because a run of
    prefixes would otherwise be tried from each of them.
    """
    exact = late(EDGE + core, re.ASCII)
    loose = (GATE_EDGE if edge else "") + (gate or core)
    return Shape(
        f"shape.{name}",
        tuple(needs.lower().split()),
        exact,
        loose,
        gate_needs=tuple(gate_needs.split()),
        leads=leads,
    )


def _within(name: str, needs: str, exact: str, gate: str, gate_needs: str = "") -> Shape:
    """A secret that is recognised by what stands before it, in any case."""
    return Shape(
        f"shape.{name}", (needs,), late(exact, CASELESS), gate, True, (gate_needs or needs,)
    )


def _is_basic(value: str) -> bool:
    """Whether ``value`` is base64 of ``user:password`` (and not the second word of a sentence)."""
    try:
        return b":" in b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (Base64Error, ValueError):
        return False


_BEARER = Shape(
    "shape.bearer",
    ("bearer",),
    late(
        _WORD_EDGE
        + r"(?i:bearer)(?:%20|"
        + _SPACE
        + r"){1,8}(?P<s>(?=[A-Za-z._~+/=\-]{0,200}[0-9]|[A-Za-z._~+/=\-]{0,200}[a-z][A-Z]|\S{24})"
        r"[A-Za-z0-9._~+/=\-]{8,})",
        re.ASCII,
    ),
    rf"(?i:bearer){_GATE_SPACE}[A-Za-z0-9._~+/=\-]",
    leads=True,
)
_BASIC = Shape(
    "shape.basic",
    ("basic",),
    late(
        _WORD_EDGE
        + r"(?i:basic)(?:%20|"
        + _SPACE
        + r"){1,8}(?P<s>(?=[A-Za-z0-9+/][a-z]{0,20}[A-Z0-9+/=])[A-Za-z0-9+/]{6,}={0,2})",
        re.ASCII,
    ),
    rf"(?i:basic){_GATE_SPACE}[A-Za-z0-9+/][a-z]{{0,20}}[A-Z0-9+/=]",
    check=_is_basic,
    leads=True,
)
# The end may be missing (a truncated file, the first chunk of a stream): then the body is all that
# still looks like one.
_PEM = Shape(
    "shape.pem",
    ("private",),
    late(
        r"-----BEGIN(?:[ +]|%20)(?:[A-Z0-9]{1,12}(?:[ +]|%20)){0,3}PRIVATE(?:[ +]|%20)KEY"
        r"(?:(?:[ +]|%20)BLOCK)?-----"
        r"(?:(?<=\n)[A-Z][A-Za-z-]{2,30}:[^\n]{0,200}|[A-Za-z0-9+/=\s\\]|%[0-9A-Fa-f]{2})*+"
        r"(?:-----END[A-Z0-9 +%]{0,60}-----|-{1,5}(?:END?)?\Z)?",
        re.ASCII,
    ),
    r"-----BEGIN[^-]{1,60}PRIVATE",
)

SHAPES: tuple[Shape, ...] = (
    _BEARER,
    _BASIC,
    _prefixed(
        "jwt",
        "eyJ",
        rf"eyJ{_URL64}{{10,}}\.{_URL64}{{6,}}(?:\.{_URL64}*){{0,3}}",
        edge=True,
    ),
    _PEM,
    _prefixed("anthropic", "sk-ant-", rf"sk-ant-{_URL64}{{8,}}"),
    _prefixed(
        "openai", "sk-", rf"sk-(?:{_URL64}{{16,}}|[A-Za-z_\-]*[0-9]{_URL64}{{9,}})", edge=True
    ),
    _prefixed("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{20,}"),
    _prefixed("github-pat", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,}"),
    _prefixed(
        "gitlab",
        "glpat- glptt- gldt- glrt- glsoat- glcbt- glimt- glagent- gloas- glft-",
        r"gl(?:pat|ptt|dt|rt|soat|cbt|imt|agent|oas|ft)-[A-Za-z0-9_.\-]{16,}",
    ),
    _prefixed("slack", "xox", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9\-]{10,}"),
    _prefixed("slack-app", "xapp-", r"xapp-[A-Za-z0-9\-]{10,}"),
    _within(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[A-Za-z0-9+/_\-]{10,})",
        r"hooks\.slack\.com",
    ),
    _within(
        "discord-webhook",
        "/webhooks/",
        r"discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/(?P<s>[0-9]{6,}/[A-Za-z0-9_\-]{20,})",
        r"discord(?:app)?\.com",
        "discord",
    ),
    _within(
        "teams-webhook",
        "webhook.office.com",
        r"webhook\.office\.com/webhookb2/(?P<s>[A-Za-z0-9@/\-]{20,})",
        r"webhook\.office\.com",
    ),
    _within(
        "azure-sas",
        "sig=",
        r"[?&]sig=(?P<s>[A-Za-z0-9%+/=_\-]{20,})",
        r"(?:[?&]|%3f|%26)sig(?:=|%3d)[A-Za-z0-9%+/=_\-]{20}",
        "sig",
    ),
    _within(
        "aws-secret",
        "access",
        r"secret[-_. ]{0,2}access[-_. ]{0,2}key[\s\"'=:>,\\]{1,12}(?P<s>[A-Za-z0-9/+]{40})",
        r"secret[-_. ]{0,2}access[-_. ]{0,2}key",
    ),
    _within(
        "odbc",
        "pwd=",
        # What is redacted already ends before the next parameter.
        r"(?:uid|user|user id)=[^;\"'\\\x00-\x1f]{1,80};[ ]{0,2}"
        r"pwd=(?!\*\*\*REDACTED(?::[0-9a-f]{12})?\*\*\*&)(?P<s>[^;\"'\\\s\x00-\x1f]+)",
        r"pwd(?:=|%3d)",
        "pwd",
    ),
    _prefixed("aws", "AKIA ASIA ABIA ACCA", r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16,}"),
    _prefixed("google", "AIza", rf"AIza{_URL64}{{30,}}"),
    _prefixed("google-oauth", "ya29.", rf"ya29\.{_URL64}{{10,}}"),
    _prefixed("google-client", "GOCSPX-", rf"GOCSPX-{_URL64}{{16,}}"),
    _prefixed(
        "google-refresh",
        "1//0",
        rf"1//0{_URL64}{{24,}}",
        gate=rf"1(?:\\*/|%2[Ff]){{2}}0{_URL64}{{24}}",
        gate_needs="/0 %2f0",
    ),
    _prefixed("groq", "gsk_", r"gsk_[A-Za-z0-9]{20,}"),
    _prefixed("huggingface", "hf_", r"hf_[A-Za-z0-9]{20,}"),
    _prefixed("perplexity", "pplx-", r"pplx-[A-Za-z0-9]{20,}"),
    _prefixed("xai", "xai-", r"xai-[A-Za-z0-9]{20,}"),
    _prefixed("nvidia", "nvapi-", rf"nvapi-{_URL64}{{20,}}"),
    _prefixed("replicate", "r8_", r"r8_[A-Za-z0-9]{20,}"),
    _prefixed("tavily", "tvly-", rf"tvly-{_URL64}{{16,}}"),
    _prefixed("langsmith", "lsv2_", r"lsv2_[a-z]{2}_[A-Za-z0-9_]{20,}"),
    _prefixed("npm", "npm_", r"npm_[A-Za-z0-9]{20,}"),
    _prefixed("pypi", "pypi-", rf"pypi-{_URL64}{{16,}}"),
    _prefixed("docker", "dckr_pat_", rf"dckr_pat_{_URL64}{{16,}}"),
    _prefixed("databricks", "dapi", r"dapi[0-9a-f]{32,}"),
    _prefixed(
        "stripe",
        "_live_ _test_ _prod_",
        r"(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}",
        leads=False,
    ),
    _prefixed("stripe-webhook", "whsec_", r"whsec_[A-Za-z0-9+/=]{16,}"),
    _prefixed("shopify", "shp", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32,}"),
    _prefixed("sendgrid", "SG.", rf"SG\.{_URL64}{{16,}}\.{_URL64}{{16,}}"),
    _prefixed(
        "telegram",
        ":AA",
        rf"(?:bot)?[0-9]{{6,12}}:AA{_URL64}{{30,}}",
        gate=rf"[0-9]{{6}}(?::|%3[Aa])AA{_URL64}{{30}}",
        gate_needs=":aa %3aaa",
        leads=False,
    ),
    _prefixed("vault", "hvs. hvb. hvr.", rf"hv[sbr]\.{_URL64}{{20,}}"),
    _prefixed("digitalocean", "_v1_", r"do[opr]_v1_[0-9a-f]{40,}", leads=False),
    _prefixed("atlassian", "ATATT3", r"ATATT3[A-Za-z0-9_\-=]{20,}"),
    _prefixed("grafana", "glsa_", r"glsa_[A-Za-z0-9]{20,}_[0-9a-f]{6,}"),
    _prefixed("linear", "lin_api_", r"lin_api_[A-Za-z0-9]{20,}"),
    _prefixed("reenact", "rnk_", r"rnk_(?:agent|user)_[0-9A-Za-z]{10,}_[0-9A-Fa-f]{16,}"),
    _prefixed("age", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{40,}"),
)
