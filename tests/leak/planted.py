"""Secrets to plant: one of every declared kind, each different wherever it is planted.

None of them is written out here: each is put together from a prefix in halves and a random core,
so that nothing in this repository looks like a secret.
"""

from __future__ import annotations

import random
import re
import string
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["NAMES", "SHAPES", "WORDS", "Plant", "known_value", "made", "plant_name", "plant_shape"]

_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + "234567"
_DIGITS = string.digits


@dataclass(frozen=True, slots=True)
class Plant:
    """``text`` is planted; ``cores`` are the parts of it of which nothing may be found again."""

    kind: str
    text: str
    cores: tuple[str, ...]

    def needles(self) -> list[bytes]:
        """Twelve characters in a row, from the start, the middle and the end of each core."""
        found: list[bytes] = []
        for core in self.cores:
            middle = len(core) // 2
            for part in (core[:12], core[middle - 6 : middle + 6], core[-12:]):
                found.append(part.encode())
        return found


class _Chance:
    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)

    def __call__(self, size: int, alphabet: str = _ALNUM) -> str:
        # With a digit at both ends: some rules ask for one, and real keys have them.
        body = "".join(self._chance.choices(alphabet, k=size - 2))
        ends = [c for c in alphabet if c in _DIGITS] or list(alphabet)
        return self._chance.choice(ends) + body + self._chance.choice(ends)


_Make = Callable[[_Chance], tuple[str, tuple[str, ...]]]


def _after(prefix: str, size: int = 36, alphabet: str = _ALNUM, suffix: str = "") -> _Make:
    def make(chance: _Chance) -> tuple[str, tuple[str, ...]]:
        core = chance(size, alphabet)
        return prefix + core + suffix, (core,)

    return make


def _basic(chance: _Chance) -> tuple[str, tuple[str, ...]]:
    password = chance(24)
    encoded = b64encode(f"user:{password}".encode()).decode("ascii")
    return f"Basic {encoded}", (password, encoded.rstrip("="))


def _jwt(chance: _Chance) -> tuple[str, tuple[str, ...]]:
    head = b64encode(b'{"alg":"HS256","typ":"JWT"}').decode("ascii").rstrip("=")
    body, tail = chance(60), chance(43)
    return f"{head}.eyJ{body}.{tail}", (body, tail)


def _pem(chance: _Chance) -> tuple[str, tuple[str, ...]]:
    lines = [chance(64) for _ in range(4)]
    word = "PRIVATE" + " KEY"
    return f"-----BEGIN {word}-----\n" + "\n".join(lines) + f"\n-----END {word}-----", tuple(lines)


def _pair(first: str, between: str, sizes: tuple[int, int], alphabet: str = _ALNUM) -> _Make:
    def make(chance: _Chance) -> tuple[str, tuple[str, ...]]:
        a, b = chance(sizes[0], alphabet), chance(sizes[1], alphabet)
        return first + a + between + b, (b,) if sizes[0] < 12 else (a, b)

    return make


def _telegram(chance: _Chance) -> tuple[str, tuple[str, ...]]:
    core = chance(33)
    return chance(9, _DIGITS) + ":" + "AA" + core, (core,)


def _discord(chance: _Chance) -> tuple[str, tuple[str, ...]]:
    core = chance(60)
    return f"https://discord.com/api/webhooks/{chance(18, _DIGITS)}/{core}", (core,)


_ALPHABETS = {
    "a": _ALNUM,
    "h": _HEX,
    "u": _UPPER,
    "d": _DIGITS,
    "l": string.ascii_lowercase + _DIGITS,
}
_FIELD = re.compile(r"\{([ahudl])([0-9]+)\}")
_SHORTEST_CORE = 12


def made(template: str, seed: str) -> tuple[str, tuple[str, ...]]:
    """``template`` with random characters in it: ``{h32}`` stands for 32 hex digits, ``a`` for letters
    and digits, ``l`` for small letters and digits, ``u`` for capital letters and digits, ``d`` for
    digits. Also the random parts that are long enough to be searched for, or else all of it."""
    chance = _Chance(seed)
    cores: list[str] = []

    def fill(field: re.Match[str]) -> str:
        size = int(field[2])
        core = (
            chance(size, _ALPHABETS[field[1]]) if size > 1 else chance(3, _ALPHABETS[field[1]])[0]
        )
        if size >= _SHORTEST_CORE:
            cores.append(core)
        return core

    text = _FIELD.sub(fill, template)
    return text, tuple(cores) or (text,)


def _of(template: str) -> _Make:
    return lambda chance: made(template, chance(16))


def _encoded_jwt(chance: _Chance) -> tuple[str, tuple[str, ...]]:
    encoded = b64encode(_jwt(chance)[0].encode()).decode().rstrip("=")
    return encoded, (encoded[40:],)


_UUID = "{h8}-{h4}-{h4}-{h4}-{h12}"

SHAPES: dict[str, _Make] = {
    "shape.bearer": _after("Bear" + "er ", 40),
    "shape.basic": _basic,
    "shape.jwt": _jwt,
    "shape.pem": _pem,
    "shape.anthropic": _after("sk-" + "ant-api03-", 80),
    "shape.openai": _after("sk-" + "proj-", 48),
    "shape.github": _after("gh" + "p_"),
    "shape.github-pat": _after("github" + "_pat_", 60),
    "shape.gitlab": _after("gl" + "pat-", 20),
    "shape.slack": _after("xox" + "b-", 40),
    "shape.slack-app": _after("xa" + "pp-", 40),
    "shape.slack-webhook": _after("https://hooks.sl" + "ack.com/services/T0/B0/", 24),
    "shape.discord-webhook": _discord,
    "shape.teams-webhook": _after("https://x.web" + "hook.office.com/webhookb2/", 36),
    "shape.azure-sas": _after("https://x.blob.example/c?sv=1&s" + "ig=", 43),
    "shape.aws-secret": _after("aws_secret_acc" + "ess_key = ", 40),
    "shape.odbc": _after("Server=x;Uid=me;P" + "wd=", 20, suffix=";"),
    "shape.aws": _after("AK" + "IA", 16, _UPPER),
    "shape.google": _after("AI" + "za", 35),
    "shape.google-oauth": _after("ya" + "29.", 60),
    "shape.google-client": _after("GOC" + "SPX-", 28),
    "shape.google-refresh": _after("1/" + "/0", 60),
    "shape.groq": _after("gs" + "k_", 52),
    "shape.huggingface": _after("h" + "f_", 34),
    "shape.perplexity": _after("pp" + "lx-", 48),
    "shape.xai": _after("xa" + "i-", 80),
    "shape.nvidia": _after("nv" + "api-", 64),
    "shape.replicate": _after("r" + "8_", 37),
    "shape.tavily": _after("tv" + "ly-", 32),
    "shape.langsmith": _after("lsv" + "2_pt_", 32, _HEX, "_0123456789"),
    "shape.npm": _after("np" + "m_"),
    "shape.pypi": _after("py" + "pi-", 120),
    "shape.docker": _after("dck" + "r_pat_", 27),
    "shape.databricks": _after("da" + "pi", 32, _HEX),
    "shape.stripe": _after("s" + "k_live_", 24),
    "shape.stripe-webhook": _after("wh" + "sec_", 32),
    "shape.shopify": _after("shp" + "at_", 32, _HEX),
    "shape.sendgrid": _pair("S" + "G.", ".", (22, 43)),
    "shape.telegram": _telegram,
    "shape.vault": _after("hv" + "s.", 90),
    "shape.digitalocean": _after("do" + "p_v1_", 64, _HEX),
    "shape.atlassian": _after("ATA" + "TT3", 180),
    "shape.grafana": _after("gl" + "sa_", 32, suffix="_0a1b2c3d"),
    "shape.linear": _after("lin_" + "api_", 40),
    "shape.reenact": _after("rn" + "k_agent_01j0000000000000000000000_", 64, _HEX),
    "shape.age": _after("AGE-SEC" + "RET-KEY-1", 58, _UPPER),
    "shape.bitbucket": _of("ATBB{a32}"),
    "shape.1password": _of("A3-{u6}-{u11}-{u5}-{u5}-{u5}"),
    "shape.1password-service": _of("ops_eyJ{a250}"),
    "shape.adobe": _of("p8e-{l32}"),
    "shape.airtable": _of("pat{a14}.{h64}"),
    "shape.alibaba": _of("LTAI{a20}"),
    "shape.artifactory": _of("AKCp{a69}"),
    "shape.artifactory-reference": _of("cmVmd{a59}"),
    "shape.authress": _of("sc_{l12}.{l5}.acc_{l20}.{l60}"),
    "shape.bedrock": _of("ABSK{a120}"),
    "shape.bedrock-session": _of("bedrock-api-key-{a60}"),
    "shape.azure-client": _of("{a3}8Q~{a34}"),
    "shape.buildkite": _of("bkua_{h40}"),
    "shape.cerebras": _of("csk-{l48}"),
    "shape.circleci": _of("CCIPAT_{a22}_{h40}"),
    "shape.clickhouse": _of("4b1d{a38}"),
    "shape.clojars": _of("CLOJARS_{l60}"),
    "shape.cloudflare-origin": _of("v1.0-{h24}-{h146}"),
    "shape.contentful": _of("CFPAT-{a43}"),
    "shape.defined-networking": _of("dnkey-{l26}-{l52}"),
    "shape.discord-bot": _of("M{a23}.{a6}.{a38}"),
    "shape.doppler": _of("dp.st.prd.{a43}"),
    "shape.dropbox": _of("sl.{a135}"),
    "shape.dropbox-long": _of("{a11}AAAAAAAAAA{a43}"),
    "shape.duffel": _of("duffel_live_{a43}"),
    "shape.dynatrace": _of("dt0c01.{u24}.{u64}"),
    "shape.e2b": _of("e2b_{h40}"),
    "shape.easypost": _of("EZAK{a54}"),
    "shape.facebook": _of("EAAC{a120}"),
    "shape.facebook-app": _of("{d16}|{a27}"),
    "shape.figma": _of("figd_{a40}"),
    "shape.firecrawl": _of("fc-{h32}"),
    "shape.fireworks": _of("fw_{a24}"),
    "shape.flutterwave": _of("FLWSECK_TEST-{h32}-X"),
    "shape.fly": _of("fm2_{a120}"),
    "shape.frameio": _of("fio-u-{a64}"),
    "shape.gitlab-runner": _of("GR1348941{a20}"),
    "shape.gocardless": _of("live_{a40}"),
    "shape.grafana-cloud": _of("glc_{a60}"),
    "shape.grafana-legacy": _of("eyJrIjoi{a80}"),
    "shape.harness": _of("pat.{a22}.{a24}.{a20}"),
    "shape.terraform": _of("{a14}.atlasv1.{a66}"),
    "shape.heroku": _of("HRKU-AA{a58}"),
    "shape.hubspot": _of("pat-na1-" + _UUID),
    "shape.infracost": _of("ico-{a32}"),
    "shape.intra42": _of("s-s4t2ud-{h64}"),
    "shape.jina": _of("jina_{h32}{a28}"),
    "shape.jwt-base64": _encoded_jwt,
    "shape.lob": _of("test_{h35}"),
    "shape.mailchimp": _of("{h32}-us12"),
    "shape.mailgun": _of("key-{h32}"),
    "shape.mapbox": _of("pk.{l60}.{l22}"),
    "shape.maxmind": _of("{a6}_{a29}_mmk"),
    "shape.netlify": _of("nfp_{a36}"),
    "shape.newrelic": _of("NRAK-{u27}"),
    "shape.notion": _of("ntn_{d11}{a35}"),
    "shape.notion-legacy": _of("secret_{a43}"),
    "shape.octopus": _of("API-{u26}"),
    "shape.okta": _of("SSWS 00{a40}"),
    "shape.openshift": _of("sha256~{a43}"),
    "shape.pinecone": _of("pcsk_{a6}_{a63}"),
    "shape.plaid": _of("access-production-" + _UUID),
    "shape.planetscale": _of("pscale_pw_{a43}"),
    "shape.postman": _of("PMAK-{h24}-{h34}"),
    "shape.prefect": _of("pnu_{a36}"),
    "shape.pulumi": _of("pul-{h40}"),
    "shape.readme": _of("rdme_{l70}"),
    "shape.rubygems": _of("rubygems_{h48}"),
    "shape.scalingo": _of("tk-us-{a48}"),
    "shape.sendinblue": _of("xkeysib-{h64}-{a16}"),
    "shape.sentry": _of("sntrys_{a100}_{a43}"),
    "shape.settlemint": _of("sm_pat_{a16}"),
    "shape.shippo": _of("shippo_live_{h40}"),
    "shape.sonar": _of("squ_{l40}"),
    "shape.sourcegraph": _of("sgp_{h40}"),
    "shape.square": _of("sq0csp-{a43}"),
    "shape.square-oauth": _of("EAAA{a60}"),
    "shape.supabase": _of("sb_secret_{a31}"),
    "shape.tailscale": _of("tskey-auth-{a12}-{a32}"),
    "shape.together": _of("tgp_v1_{a43}"),
    "shape.twilio": _of("SK{h32}"),
    "shape.twitter": _of("AAAAAAAAAAAAAAAAAAAAAA{a90}"),
    "shape.typeform": _of("tfp_{a59}"),
    "shape.vercel-blob": _of("vercel_blob_rw_{a16}_{a30}"),
    "shape.yandex": _of("t1.{a60}.{a86}"),
    "shape.yandex-key": _of("AQVN{a36}"),
    "shape.secret-token": _of("secret-token:{a32}"),
}
"""How to make a token of each shape that :mod:`reenact.policy.redaction.tokens` declares."""

NAMES = """
password passwd pwd passphrase user_password new-password password_confirmation secret client_secret
clientSecret SECRET_KEY token access_token accessToken refresh_token id_token auth_token AuthToken
session_token api_key apiKey API_KEY OPENAI_API_KEY x-api-key access_key secretAccessKey private_key
privateKey account_key auth_key deploy_key encryption_key license_key master_key signing_key ssh_key
subscription_key connection_string credential credentials creds authorization Authorization
Proxy-Authorization basic_auth csrf xsrf_token X-CSRF-Token code_verifier device_code
client_assertion X-Amz-Security-Token X-Amz-Signature X-Goog-Signature GITHUB_PAT bearer jwt otp
totp db.password user[password] DB_PASSWORD_2 pass db_pass DB_PASS user_pass pw passcode pin cvv
card_number session_id sid auth SAMLResponse verification_code recovery_code mnemonic X-Session
""".split()
"""Names that make whatever stands under them a secret."""

WORDS = "plum cedar otter maple heron basil quartz linden falcon juniper walrus saffron".split()


def plant_shape(kind: str, place: str) -> Plant:
    text, cores = SHAPES[kind](_Chance(f"{kind} at {place}"))
    return Plant(kind, text, cores)


def plant_name(name: str, place: str) -> Plant:
    """A value with no shape of its own: only its name gives it away."""
    chance = random.Random(f"{name} at {place}")
    core = "".join(chance.choices(WORDS, k=3)) + "".join(chance.choices(_DIGITS, k=10))
    return Plant(name, core, (core,))


def known_value(kind: str, place: str) -> Plant:
    """A declared value, or that of an environment variable: any text at all."""
    chance = random.Random(f"{kind} at {place}")
    core = "-".join(chance.choices(WORDS, k=3)) + "".join(chance.choices(_DIGITS, k=10))
    return Plant(kind, core, (core,))
