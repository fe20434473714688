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

from reenact.policy.patterns import lazy_pattern
from reenact.policy.redaction.names import CASELESS
from reenact.policy.redaction.prescan import Clue, IndexedText, clue_of

__all__ = ["EDGE", "GATE_EDGE", "SHAPES", "Shape"]

# A token starts at the start of a base64url run: a signature or an opaque id that happens to
# contain a prefix must survive. %20 and the colour codes of terminals are not part of a run.
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
_ALNUM = r"[A-Za-z0-9]"
_HEX = r"[0-9a-f]"
_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_END = r"(?![A-Za-z0-9_\-+=])"
# From a dot, which `re` finds faster than a letter.
_DISCORD_END = rf"\.{_URL64}{{6}}\.{_URL64}{{27}}"


class Shape(msgspec.Struct, frozen=True):
    """``needs``: one of these texts is in every match, in some case; they are written lower-case.

    ``exact`` is the pattern of the slow pass; the group ``s``, if there is one, is the secret, else
    the whole match is; with ``leads`` each match starts with one of ``needs``. ``gate`` is the
    pattern of the gate, in any case if ``caseless``; ``gate_needs`` stands for ``needs`` there,
    where those may be written with escapes. ``check`` has the last word. ``sieve`` is found in
    every text with a match, and sooner than a match.
    """

    id: str
    needs: tuple[str, ...]
    exact: re.Pattern[str]
    gate: str
    caseless: bool = False
    gate_needs: tuple[str, ...] = ()
    check: Callable[[str], bool] | None = None
    leads: bool = False
    sieve: re.Pattern[str] | None = None

    def clues(self) -> Iterator[Clue]:
        """The clues to each of ``needs``."""
        return (clue_of(need, leads=self.leads) for need in self.needs)

    def matches(self, searched: IndexedText) -> Iterator[re.Match[str]]:
        """Every match in the text."""
        if self.sieve is not None and self.sieve.search(searched.text) is None:
            return
        index = searched.index
        needs = [
            clue.need for clue in self.clues() if clue.fits(index) and clue.need in searched.low
        ]
        if needs and not (self.leads and searched.aligned):
            yield from self.exact.finditer(searched.text)
        else:
            for need in needs:
                yield from searched.matches(self.exact, need)


# Hyperscan takes long to compile high counts, and the gate need not count to the end.
_COUNTED = lazy_pattern(r"\{([0-9]+)(?:,[0-9]*)?\}")
_ENOUGH = 16


def _shorter(count: re.Match[str]) -> str:
    return f"{{{_ENOUGH},}}" if int(count[1]) > _ENOUGH else count[0]


def _prefixed(
    name: str,
    needs: str,
    core: str,
    *,
    edge: bool = False,
    gate: str = "",
    gate_needs: str = "",
    leads: bool = True,
    ends: bool = False,
    check: Callable[[str], bool] | None = None,
) -> Shape:
    """A token that starts with a prefix of its own.

    ``edge``: the gate, too, looks before it, because the prefix is short, or because a run of
    prefixes would otherwise be tried from each of them. ``ends``: the token has this length and no
    other, because longer runs with its prefix are something else.
    """
    exact = lazy_pattern(EDGE + core + (_END if ends else ""), re.ASCII)
    loose = (GATE_EDGE if edge else "") + (gate or _COUNTED.sub(_shorter, core))
    return Shape(
        f"shape.{name}",
        tuple(needs.lower().split()),
        exact,
        loose,
        gate_needs=tuple(gate_needs.split()),
        check=check,
        leads=leads,
    )


def _within(name: str, needs: str, exact: str, gate: str, gate_needs: str = "") -> Shape:
    """A secret that is recognised by what stands before it, in any case."""
    return Shape(
        f"shape.{name}",
        (needs,),
        lazy_pattern(exact, CASELESS),
        gate,
        True,
        tuple((gate_needs or needs).split()),
    )


def _is_basic(value: str) -> bool:
    """Return whether ``value`` is base64 of ``user:password`` and not the second word of a
    sentence.
    """
    try:
        return b":" in b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (Base64Error, ValueError):
        return False


def _is_mixed(value: str) -> bool:
    """Return whether ``value`` has digits, lower-case and capital letters, unlike a program's
    identifiers.
    """
    return (
        sum(map(str.isdigit, value)) >= _FEW
        and any(map(str.islower, value))
        and any(map(str.isupper, value))
    )


def _has_digits(value: str) -> bool:
    """Return whether ``value`` contains several digits, unlike a sequence of words."""
    return sum(map(str.isdigit, value)) >= _FEW


def _is_varied(value: str) -> bool:
    """Return whether ``value`` has many different characters, unlike a buffer of zeros in base64."""
    return len(set(value)) >= _MANY


def _is_no_package(value: str) -> bool:
    """Return whether ``value`` is not the name of a package: ``sk-learn-1.5``."""
    return not value.startswith(("sk-learn-", "sk-image-", "sk-video-"))


def _is_encoded_jwt(value: str) -> bool:
    """Return whether ``value`` is a token that was encoded as base64 again."""
    try:
        plain = b64decode(value + "=" * (-len(value) % 4), altchars=b"-_" if "-" in value else None)
    except (Base64Error, ValueError):
        return False
    return plain.startswith(b"eyJ") and plain.count(b".") in (1, 2) and b".eyJ" in plain


_FEW = 3
_MANY = 16

_BEARER = Shape(
    "shape.bearer",
    ("bearer",),
    lazy_pattern(
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
    lazy_pattern(
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
# The end can be missing (a truncated file, the first chunk of a stream). Then only the body still
# looks like a key.
_PEM = Shape(
    "shape.pem",
    ("private",),
    lazy_pattern(
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
        "jwt", "eyJ", rf"eyJ{_URL64}{{10,}}\.{_URL64}{{6,}}(?:\.{_URL64}*){{0,3}}", edge=True
    ),
    _PEM,
    _prefixed("anthropic", "sk-ant-", rf"sk-ant-{_URL64}{{8,}}"),
    _prefixed(
        "openai",
        "sk-",
        rf"sk-(?:{_URL64}{{16,}}|[A-Za-z_\-]*[0-9]{_URL64}{{9,}})",
        edge=True,
        check=_is_no_package,
    ),
    _prefixed("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{20,}"),
    _prefixed("github-pat", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,}"),
    _prefixed(
        "gitlab",
        "glpat- glptt- gldt- glrt- glsoat- glcbt- glimt- glagent- gloas- glft- glffct-",
        r"gl(?:pat|ptt|dt|rt|soat|cbt|imt|agent|oas|ffct|ft)-[A-Za-z0-9_.\-]{16,}",
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
        r"sig(?:=|%3d)[a-z0-9%+/=_\-]{20}",
        "sig= sig%3d",
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
        # A redacted value ends before the next parameter.
        r"(?:uid|user|user id)=[^;\"'\\\x00-\x1f]{1,80};[ ]{0,2}"
        r"pwd=(?!\*\*\*REDACTED(?::[0-9a-f]{12})?\*\*\*&)(?P<s>[^;\"'\\\s\x00-\x1f]+)",
        r"pwd(?:=|%3d)",
        "pwd",
    ),
    _prefixed(
        "aws", "AKIA ASIA ABIA ACCA A3T", r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[0-9A-Z]{16,}"
    ),
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
    _prefixed("huggingface", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    _prefixed("perplexity", "pplx-", r"pplx-[A-Za-z0-9]{20,}"),
    _prefixed("xai", "xai-", r"xai-[A-Za-z0-9]{20,}"),
    _prefixed("nvidia", "nvapi-", rf"nvapi-{_URL64}{{20,}}"),
    _prefixed("replicate", "r8_", r"r8_[A-Za-z0-9]{20,}"),
    _prefixed("tavily", "tvly-", rf"tvly-{_URL64}{{16,}}"),
    _prefixed("langsmith", "lsv2_", r"lsv2_[a-z]{2}_[A-Za-z0-9_]{20,}"),
    _prefixed("npm", "npm_", r"npm_[A-Za-z0-9]{20,}"),
    _prefixed("pypi", "pypi-", rf"pypi-{_URL64}{{16,}}"),
    _prefixed("docker", "dckr_pat_ dckr_oat_", rf"dckr_[po]at_{_URL64}{{16,}}"),
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
    _prefixed("atlassian", "ATATT3 ATCTT3 ATSTT3", r"AT[ACS]TT3[A-Za-z0-9_\-=]{20,}"),
    _prefixed("bitbucket", "ATBB", rf"ATBB{_ALNUM}{{24,}}"),
    _prefixed("grafana", "glsa_", r"glsa_[A-Za-z0-9]{20,}_[0-9a-f]{6,}"),
    _prefixed("linear", "lin_api_ lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{20,}"),
    _prefixed("reenact", "rnk_", r"rnk_(?:agent|user)_[0-9A-Za-z]{10,}_[0-9A-Fa-f]{16,}"),
    _prefixed("age", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{40,}"),
    _prefixed(
        "1password",
        "A3-",
        r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
    ),
    _prefixed("1password-service", "ops_ey", r"ops_ey[A-Za-z0-9+/=]{40,}"),
    _prefixed("adobe", "p8e-", rf"p8e-{_ALNUM}{{32}}", ends=True),
    _prefixed("airtable", "pat", rf"pat{_ALNUM}{{14}}\.{_HEX}{{64}}"),
    _prefixed("alibaba", "LTAI", rf"LTAI{_ALNUM}{{12,26}}", ends=True),
    _prefixed("artifactory", "AKCp", rf"AKCp{_ALNUM}{{40,}}"),
    _prefixed("artifactory-reference", "cmVmd", rf"cmVmd{_ALNUM}{{59}}", ends=True),
    _prefixed(
        "authress",
        ".acc",
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_\-][a-z0-9\-]{10,32}"
        r"\.[A-Za-z0-9+/_=\-]{30,}",
        gate=r"\.acc[_\-][a-z0-9\-]{10}",
        leads=False,
    ),
    _prefixed("bedrock", "ABSK", r"ABSK[A-Za-z0-9+/]{80,}={0,2}"),
    _prefixed("bedrock-session", "bedrock-api-key-", r"bedrock-api-key-[A-Za-z0-9+/=_\-]{20,}"),
    Shape(
        "shape.azure-client",
        ("q~",),
        lazy_pattern(EDGE + r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.\-]{31,34}(?![A-Za-z0-9_~\-])"),
        r"[0-9]Q~[A-Za-z0-9_~.\-]{31}",
    ),
    _prefixed("buildkite", "bkua_", rf"bkua_{_HEX}{{40}}"),
    _prefixed("cerebras", "csk-", rf"csk-{_ALNUM}{{20,}}"),
    _prefixed("circleci", "CCIPAT_ CCIPRJ_", rf"CCIP(?:AT|RJ)_{_ALNUM}{{10,}}_{_HEX}{{40}}"),
    _prefixed("clickhouse", "4b1d", rf"4b1d{_ALNUM}{{38}}", ends=True),
    _prefixed("clojars", "CLOJARS_", rf"CLOJARS_{_ALNUM}{{40,}}"),
    _prefixed("cloudflare-origin", "v1.0-", rf"v1\.0-{_HEX}{{24}}-{_HEX}{{100,}}"),
    _prefixed("contentful", "CFPAT-", rf"CFPAT-{_URL64}{{40,}}"),
    _prefixed("defined-networking", "dnkey-", r"dnkey-[A-Za-z0-9=_\-]{26}-[A-Za-z0-9=_\-]{52}"),
    Shape(
        "shape.discord-bot",
        (".",),
        lazy_pattern(
            rf"{EDGE}[MNO]{_URL64}{{23,27}}\.{_URL64}{{6}}\.{_URL64}{{27,45}}(?![A-Za-z0-9_\-])",
            re.ASCII,
        ),
        _DISCORD_END,
        check=_is_mixed,
        sieve=lazy_pattern(_DISCORD_END, re.ASCII),
    ),
    _prefixed(
        "doppler",
        "dp.",
        r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_\-]{2,35}\.)?[A-Za-z0-9]{40,44}",
    ),
    _prefixed("dropbox", "sl.", r"sl\.[A-Za-z0-9_\-=]{100,}", gate=r"sl\.[A-Za-z0-9_\-=]{100}"),
    _prefixed(
        "dropbox-long",
        "aaaaaaaaaa",
        r"[A-Za-z0-9]{11}AAAAAAAAAA[A-Za-z0-9_\-=]{43}",
        gate=r"AAAAAAAAAA[A-Za-z0-9_\-=]{43}",
        leads=False,
        ends=True,
        check=_is_varied,
    ),
    _prefixed("duffel", "duffel_", r"duffel_(?:test|live)_[A-Za-z0-9_\-=]{40,}"),
    _prefixed("dynatrace", "dt0", rf"dt0[a-z][0-9]{{2}}\.{_ALNUM}{{24}}\.{_ALNUM}{{60,}}"),
    _prefixed("e2b", "e2b_", rf"e2b_{_HEX}{{40}}"),
    _prefixed("easypost", "EZAK EZTK", rf"EZ[AT]K{_ALNUM}{{54}}"),
    _prefixed("facebook", "EAA", rf"EAA[A-Z]{_ALNUM}{{80,}}", ends=True),
    _prefixed(
        "facebook-app",
        "|",
        r"[0-9]{15,16}\|[A-Za-z0-9_\-]{27,40}",
        leads=False,
        ends=True,
        gate=r"\|[A-Za-z0-9_\-]{27}",
    ),
    _prefixed("figma", "figd_", rf"figd_{_URL64}{{20,}}"),
    _prefixed("firecrawl", "fc-", rf"fc-{_HEX}{{32}}"),
    _prefixed("fireworks", "fw_", rf"fw_{_ALNUM}{{20,}}", gate=rf"fw_{_ALNUM}{{20}}"),
    _prefixed(
        "flutterwave", "FLWSECK FLWPUBK", r"FLW(?:SEC|PUB)K(?:_TEST)?-[0-9A-Za-z]{12,}(?:-X)?"
    ),
    _prefixed(
        "fly",
        "fo1_ fm1a_ fm1r_ fm2_",
        r"(?:fo1_[A-Za-z0-9_\-]{40,}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{60,}={0,3})",
    ),
    _prefixed("frameio", "fio-u-", r"fio-u-[A-Za-z0-9_\-=]{40,}"),
    _prefixed("gitlab-runner", "GR1348941", rf"GR1348941{_URL64}{{16,}}"),
    _prefixed("gocardless", "live_", r"live_[A-Za-z0-9_\-=]{40}", check=_has_digits, ends=True),
    _prefixed("grafana-cloud", "glc_", r"glc_[A-Za-z0-9+/]{20,}={0,3}"),
    _prefixed("grafana-legacy", "eyJrIjoi", r"eyJrIjoi[A-Za-z0-9+/]{40,}={0,3}"),
    _prefixed("harness", "pat. sat.", rf"[ps]at\.{_URL64}{{22}}\.{_ALNUM}{{24}}\.{_ALNUM}{{20}}"),
    _prefixed(
        "terraform",
        ".atlasv1.",
        rf"{_ALNUM}{{14}}\.atlasv1\.[A-Za-z0-9\-_=]{{40,}}",
        gate=r"\.atlasv1\.",
        leads=False,
    ),
    _prefixed("heroku", "HRKU-", rf"HRKU-{_URL64}{{30,}}"),
    _prefixed("hubspot", "pat-", rf"pat-(?:na|eu)[0-9]-{_UUID}"),
    _prefixed("infracost", "ico-", rf"ico-{_ALNUM}{{32}}", ends=True),
    _prefixed("intra42", "s-s4t2", rf"s-s4t2(?:ud|af)-{_HEX}{{64}}"),
    _prefixed("jina", "jina_", rf"jina_{_ALNUM}{{32,}}"),
    Shape(
        "shape.jwt-base64",
        ("zxlk",),
        lazy_pattern(EDGE + r"ZXlK[A-Za-z0-9+/_\-]{60,}={0,2}", re.ASCII),
        r"ZXlK[A-Za-z0-9+/_\-]{60}",
        check=_is_encoded_jwt,
    ),
    _prefixed("lob", "live_ test_", rf"(?:live|test)_(?:pub_)?{_HEX}{{31,35}}", ends=True),
    _prefixed(
        "mailchimp",
        "-us",
        rf"{_HEX}{{32}}-us[0-9]{{1,2}}",
        gate=r"[0-9a-f]-us[0-9]",
        leads=False,
        ends=True,
    ),
    _prefixed(
        "mailgun",
        "key- pubkey-",
        rf"(?:pub)?key-{_HEX}{{32}}",
        gate=rf"key-{_HEX}{{32}}",
        ends=True,
    ),
    _prefixed("mapbox", "pk. sk. tk.", rf"[pst]k\.{_ALNUM}{{50,}}\.{_URL64}{{20,}}"),
    _prefixed(
        "maxmind",
        "_mmk",
        rf"{_ALNUM}{{6}}_{_ALNUM}{{29}}_mmk",
        gate=r"[A-Za-z0-9]_mmk",
        leads=False,
        ends=True,
    ),
    _prefixed("netlify", "nfp_", rf"nfp_{_ALNUM}{{20,}}"),
    _prefixed(
        "newrelic",
        "NRAK- NRII- NRJS- NRIQ- NRRA- NRAA-",
        r"NR(?:AK|II|JS|IQ|RA|AA)-[A-Za-z0-9\-]{19,}",
    ),
    _prefixed("notion", "ntn_", rf"ntn_{_ALNUM}{{20,}}"),
    _prefixed("notion-legacy", "secret_", rf"secret_{_ALNUM}{{43}}", ends=True),
    _prefixed("octopus", "API-", r"API-[A-Z0-9]{26}", ends=True),
    _within(
        "okta",
        "ssws",
        r"ssws(?:%20|[ \t+]){1,8}(?P<s>[A-Za-z0-9_\-]{30,})",
        rf"ssws{_GATE_SPACE}[a-z0-9_\-]{{30}}",
    ),
    _prefixed("openshift", "sha256~", rf"sha256~{_URL64}{{40,}}"),
    _prefixed("pinecone", "pcsk_", rf"pcsk_{_ALNUM}[A-Za-z0-9_]{{20,}}"),
    _prefixed("plaid", "access-", rf"access-(?:sandbox|development|production)-{_UUID}"),
    _prefixed("planetscale", "pscale_", r"pscale_(?:tkn|oauth|pw)_[A-Za-z0-9_=.\-]{24,}"),
    _prefixed("postman", "PMAK-", rf"PMAK-{_HEX}{{24}}-{_HEX}{{30,}}"),
    _prefixed("prefect", "pnu_ pnb_", rf"pn[ub]_{_ALNUM}{{30,}}"),
    _prefixed("pulumi", "pul-", rf"pul-{_HEX}{{40}}"),
    _prefixed("readme", "rdme_", r"rdme_[a-z0-9]{60,}"),
    _prefixed("rubygems", "rubygems_", rf"rubygems_{_HEX}{{40,}}"),
    _prefixed("scalingo", "tk-us-", rf"tk-us-{_URL64}{{40,}}"),
    _prefixed("sendinblue", "xkeysib- xsmtpsib-", rf"x(?:key|smtp)sib-{_HEX}{{64}}-{_ALNUM}{{16}}"),
    _prefixed("sentry", "sntrys_ sntryu_", r"sntry[su]_[A-Za-z0-9+/=_]{40,}"),
    _prefixed("settlemint", "sm_aat_ sm_pat_ sm_sat_", rf"sm_[aps]at_{_ALNUM}{{16,}}"),
    _prefixed("shippo", "shippo_", r"shippo_(?:live|test)_[0-9a-fA-F]{40}"),
    _prefixed("sonar", "squ_ sqp_ sqa_", r"sq[upa]_[A-Za-z0-9=_\-]{40}"),
    _prefixed("sourcegraph", "sgp_", r"sgp_(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}"),
    _prefixed("square", "sq0atp- sq0csp- sq0idp-", rf"sq0(?:atp|csp|idp)-{_URL64}{{22,}}"),
    _prefixed("square-oauth", "EAAA", rf"EAAA{_URL64}{{22,60}}", ends=True, check=_is_mixed),
    _prefixed("supabase", "sbp_ sb_secret_", rf"(?:sbp_{_HEX}{{40}}|sb_secret_{_URL64}{{16,}})"),
    _prefixed("tailscale", "tskey-", rf"tskey-[a-z]+-{_ALNUM}{{10,}}(?:-{_ALNUM}{{10,}})?"),
    _prefixed("together", "tgp_v1_", rf"tgp_v1_{_URL64}{{30,}}"),
    _prefixed("twilio", "SK", r"SK[0-9a-fA-F]{32}", gate=r"SK[0-9a-fA-F]{32}", ends=True),
    _prefixed(
        "twitter", "aaaaaaaaaaaaaaaaaaaaaa", r"A{22}[A-Za-z0-9%]{60,}", ends=True, check=_is_varied
    ),
    _prefixed("typeform", "tfp_", r"tfp_[A-Za-z0-9_.=\-]{40,}"),
    _prefixed("vercel-blob", "vercel_blob_rw_", r"vercel_blob_rw_[A-Za-z0-9_]{20,}"),
    _prefixed("yandex", "t1.", rf"t1\.{_URL64}{{8,}}={{0,2}}\.{_URL64}{{86}}={{0,2}}"),
    _prefixed("yandex-key", "AQVN", rf"AQVN{_URL64}{{35,38}}", ends=True),
    _within(
        "secret-token",
        "secret-token:",
        r"secret-token:(?P<s>[A-Za-z0-9._~%!$&'()*+,;=:@/-]{8,})",
        r"secret-token(?::|%3a)",
        "secret-token",
    ),
)
