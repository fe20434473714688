"""Token-shaped texts, put together from halves so that no file of ours contains a token."""

from __future__ import annotations

from base64 import b64encode

from tests.leak.planted import SHAPES, plant_shape

FILLER = "A1b2C3d4E5f6G7h8J9k0"

TOKENS = {
    "shape.bearer": "Bearer " + FILLER,
    "shape.basic": "Basic " + b64encode(b"user:pass" + b"word").decode(),
    "shape.jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + "." + "eyJzdWIiOiIxIn0" + "." + "c2lnbmF0dXJl",
    "shape.pem": "-----BEGIN RSA PRI" + "VATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----",
    "shape.anthropic": "sk-" + "ant-api03-" + FILLER,
    "shape.openai": "sk-" + "proj-" + FILLER,
    "shape.github": "gh" + "p_" + FILLER + FILLER,
    "shape.github-pat": "github" + "_pat_" + FILLER + "_" + FILLER,
    "shape.gitlab": "gl" + "pat-" + FILLER,
    "shape.slack": "xo" + "xb-123456789012-" + FILLER,
    "shape.slack-app": "xa" + "pp-1-" + FILLER,
    "shape.slack-webhook": "https://hooks.sla" + "ck.com/services/T000/B000/" + FILLER,
    "shape.discord-webhook": "https://discord.c" + "om/api/webhooks/123456789/" + FILLER,
    "shape.teams-webhook": "https://x.webhook.off" + "ice.com/webhookb2/" + FILLER,
    "shape.azure-sas": "https://x.blob/y?sv=1&si" + "g=" + FILLER + "%3D",
    "shape.aws-secret": "set aws_secret_acc"
    + "ess_key "
    + "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY00",
    "shape.odbc": "UID=sa;P" + "WD=hunter2;",
    "shape.aws": "AK" + "IAIOSFODNN7EXAMPLE",
    "shape.google": "AI" + "zaSy" + FILLER + "abcdefghijk",
    "shape.google-oauth": "ya" + "29.a0" + FILLER,
    "shape.google-client": "GOC" + "SPX-" + FILLER,
    "shape.google-refresh": "1/" + "/0" + FILLER + "abcdef",
    "shape.groq": "gs" + "k_" + FILLER,
    "shape.huggingface": "h" + "f_" + FILLER,
    "shape.perplexity": "pp" + "lx-" + FILLER,
    "shape.xai": "xa" + "i-" + FILLER,
    "shape.nvidia": "nv" + "api-" + FILLER,
    "shape.replicate": "r" + "8_" + FILLER,
    "shape.tavily": "tv" + "ly-" + FILLER,
    "shape.langsmith": "ls" + "v2_pt_" + FILLER,
    "shape.npm": "np" + "m_" + FILLER,
    "shape.pypi": "py" + "pi-" + FILLER,
    "shape.docker": "dckr" + "_pat_" + FILLER,
    "shape.databricks": "da" + "pi" + "0123456789abcdef" * 2,
    "shape.stripe": "sk" + "_live_" + FILLER,
    "shape.stripe-webhook": "wh" + "sec_" + FILLER,
    "shape.shopify": "shp" + "at_" + "0123456789abcdef" * 2,
    "shape.sendgrid": "S" + "G." + FILLER + "." + FILLER,
    "shape.telegram": "123456789" + ":AA" + FILLER + FILLER,
    "shape.vault": "hv" + "s." + FILLER,
    "shape.digitalocean": "do" + "p_v1_" + "0123456789abcdef" * 4,
    "shape.atlassian": "ATA" + "TT3" + FILLER,
    "shape.grafana": "gl" + "sa_" + FILLER + "_0a1b2c3d",
    "shape.linear": "lin" + "_api_" + FILLER,
    "shape.reenact": "rn" + "k_agent_" + FILLER + "_0123456789abcdef0123",
    "shape.age": "AGE-SEC" + "RET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" + "QPZRY9X8",
}
TOKENS.update(
    (kind, plant_shape(kind, "secrets for tests").text) for kind in SHAPES if kind not in TOKENS
)
