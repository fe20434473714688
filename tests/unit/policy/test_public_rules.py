"""The rules of a public list (gitleaks) as a yardstick: of those with a distinctive shape, each is covered.

The names are those of the list; the shapes are written here as templates, and the values are made up at run
time, so that nothing in this repository looks like a secret.
"""

from __future__ import annotations

import json

import pytest

from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor
from tests.leak.planted import made

UUID = "{h8}-{h4}-{h4}-{h4}-{h12}"

RULES = {
    "1password-secret-key": "A3-{u6}-{u6}-{u5}-{u5}-{u5}-{u5}",
    "1password-service-account-token": "ops_eyJ{a260}",
    "adobe-client-secret": "p8e-{a32}",
    "age-secret-key": "AGE-SECRET-KEY-1{u58}",
    "airtable-personnal-access-token": "pat{a14}.{h64}",
    "alibaba-access-key-id": "LTAI{a20}",
    "anthropic-admin-api-key": "sk-ant-admin01-{a93}AA",
    "anthropic-api-key": "sk-ant-api03-{a93}AA",
    "artifactory-api-key": "AKCp{a69}",
    "artifactory-reference-token": "cmVmd{a59}",
    "atlassian-api-token": "ATATT3{a186}",
    "authress-service-client-access-key": "ext_{l10}.{l6}.acc-{l20}.{l80}",
    "aws-access-token": "AKIA{u16}",
    "aws-access-token (A3T)": "A3TX{u16}",
    "aws-amazon-bedrock-api-key-long-lived": "ABSK{a120}",
    "aws-amazon-bedrock-api-key-short-lived": "bedrock-api-key-YmVk{a60}",
    "azure-ad-client-secret": "{a3}7Q~{a34}",
    "clickhouse-cloud-api-secret-key": "4b1d{a38}",
    "clojars-api-token": "CLOJARS_{l60}",
    "cloudflare-origin-ca-key": "v1.0-{h24}-{h146}",
    "curl-auth-user": "curl -u ada:{a20} https://host.example",
    "curl-auth-header": "curl -H 'X-Api-Key: {a20}' https://host.example",
    "databricks-api-token": "dapi{h32}",
    "defined-networking-api-token": "dnkey-{l26}-{l52}",
    "digitalocean-access-token": "doo_v1_{h64}",
    "digitalocean-pat": "dop_v1_{h64}",
    "digitalocean-refresh-token": "dor_v1_{h64}",
    "discord-bot-token": "M{a23}.{a6}.{a38}",
    "discord-bot-token (dash)": "N{a9}-{a13}.{a6}.{a27}",
    "discord-bot-token (underscore)": "O{a4}_{a9}_{a10}.{a6}.{a38}",
    "doppler-api-token": "dp.pt.{a43}",
    "dropbox-long-lived-api-token": "{l11}AAAAAAAAAA{l43}",
    "dropbox-short-lived-api-token": "sl.{l135}",
    "duffel-api-token": "duffel_test_{a43}",
    "dynatrace-api-token": "dt0c01.{a24}.{a64}",
    "easypost-api-token": "EZAK{a54}",
    "easypost-test-api-token": "EZTK{a54}",
    "facebook-access-token": "{d15}|{a27}",
    "facebook-page-access-token": "EAAM{a110}",
    "flutterwave-encryption-key": "FLWSECK_TEST-{h12}",
    "flutterwave-public-key": "FLWPUBK_TEST-{h32}-X",
    "flutterwave-secret-key": "FLWSECK_TEST-{h32}-X",
    "flyio-access-token": "fo1_{a43}",
    "flyio-access-token (fm1)": "fm1r_{a110}",
    "frameio-api-token": "fio-u-{a64}",
    "freemius-secret-key": "'secret_key' => 'sk_{a29}'",
    "gcp-api-key": "AIza{a35}",
    "github-app-token": "ghs_{a36}",
    "github-fine-grained-pat": "github_pat_{a82}",
    "github-oauth": "gho_{a36}",
    "github-pat": "ghp_{a36}",
    "github-refresh-token": "ghr_{a36}",
    "gitlab-cicd-job-token": "glcbt-{a4}_{a20}",
    "gitlab-deploy-token": "gldt-{a20}",
    "gitlab-feature-flag-client-token": "glffct-{a20}",
    "gitlab-feed-token": "glft-{a20}",
    "gitlab-incoming-mail-token": "glimt-{a25}",
    "gitlab-kubernetes-agent-token": "glagent-{a50}",
    "gitlab-oauth-app-secret": "gloas-{a64}",
    "gitlab-pat": "glpat-{a20}",
    "gitlab-pat-routable": "glpat-{a27}.{l2}{l7}",
    "gitlab-ptt": "glptt-{h40}",
    "gitlab-rrt": "GR1348941{a20}",
    "gitlab-runner-authentication-token": "glrt-{a20}",
    "gitlab-runner-authentication-token-routable": "glrt-t1_{a27}.{l2}{l7}",
    "gitlab-scim-token": "glsoat-{a20}",
    "gitlab-session-cookie": "_gitlab_session={h32}",
    "gocardless-api-token": "live_{a40}",
    "grafana-api-key": "eyJrIjoi{a80}",
    "grafana-cloud-api-token": "glc_{a60}",
    "grafana-service-account-token": "glsa_{a32}_{h8}",
    "harness-api-key": "sat.{a22}.{a24}.{a20}",
    "hashicorp-tf-api-token": "{a14}.atlasv1.{a64}",
    "hashicorp-tf-password": 'administrator_login_password = "{a16}"',
    "heroku-api-key-v2": "HRKU-AA{a58}",
    "huggingface-access-token": "hf_{l34}",
    "huggingface-organization-api-token": "api_org_{l34}",
    "infracost-api-token": "ico-{a32}",
    "intra42-client-secret": "s-s4t2af-{h64}",
    "jwt": "eyJ{a20}.eyJ{a30}.{a43}",
    "linear-api-key": "lin_api_{a40}",
    "lob-api-key": "live_{h35}",
    "lob-pub-api-key": "test_pub_{h31}",
    "mailchimp-api-key": "{h32}-us21",
    "mailgun-private-api-token": "key-{h32}",
    "mailgun-pub-key": "pubkey-{h32}",
    "mapbox-api-token": "pk.{l60}.{l22}",
    "maxmind-license-key": "{a6}_{a29}_mmk",
    "microsoft-teams-webhook": "https://x.webhook.office.com/webhookb2/" + UUID + "@" + UUID,
    "new-relic-browser-api-token": "NRJS-{h19}",
    "new-relic-insert-key": "NRII-{a32}",
    "new-relic-user-api-key": "NRAK-{u27}",
    "notion-api-token": "ntn_{d11}{a35}",
    "npm-access-token": "npm_{l36}",
    "nuget-config-password": '<add key="ClearTextPassword" value="{a20}" />',
    "octopus-deploy-api-key": "API-{u26}",
    "openai-api-key": "sk-proj-{a74}T3BlbkFJ{a74}",
    "openshift-user-token": "sha256~{a43}",
    "perplexity-api-key": "pplx-{a48}",
    "plaid-api-token": "access-sandbox-" + UUID,
    "planetscale-api-token": "pscale_tkn_{a43}",
    "planetscale-oauth-token": "pscale_oauth_{a43}",
    "planetscale-password": "pscale_pw_{a43}",
    "postman-api-token": "PMAK-{h24}-{h34}",
    "prefect-api-token": "pnu_{a36}",
    "private-key": "-----BEGIN PRIV" + "ATE KEY-----\n{a64}\n{a64}\n-----END PRIVATE KEY-----",
    "pulumi-api-token": "pul-{h40}",
    "pypi-upload-token": "pypi-AgEIcHlwaS5vcmc{a80}",
    "readme-api-token": "rdme_{l70}",
    "rubygems-api-token": "rubygems_{h48}",
    "scalingo-api-token": "tk-us-{a48}",
    "sendgrid-api-token": "SG.{a22}.{a43}",
    "sendinblue-api-token": "xkeysib-{h64}-{l16}",
    "sentry-org-token": "sntrys_eyJpYXQiO{a120}_{a43}",
    "sentry-user-token": "sntryu_{h64}",
    "settlemint-application-access-token": "sm_aat_{a16}",
    "settlemint-personal-access-token": "sm_pat_{a16}",
    "settlemint-service-access-token": "sm_sat_{a16}",
    "shippo-api-token": "shippo_test_{h40}",
    "shopify-access-token": "shpat_{h32}",
    "shopify-custom-access-token": "shpca_{h32}",
    "shopify-private-app-access-token": "shppa_{h32}",
    "shopify-shared-secret": "shpss_{h32}",
    "sidekiq-secret": "BUNDLE_ENTERPRISE__CONTRIBSYS__COM={h12}:{h12}",
    "sidekiq-sensitive-url": "https://{h12}:{h12}@gems.contribsys.com/",
    "slack-app-token": "xapp-1-{u11}-{d13}-{l64}",
    "slack-bot-token": "xoxb-{d12}-{d12}-{a24}",
    "slack-config-access-token": "xoxe.xoxp-1-{u163}",
    "slack-config-refresh-token": "xoxe-1-{u146}",
    "slack-legacy-bot-token": "xoxb-{d12}-{a24}",
    "slack-legacy-token": "xoxs-{d12}-{d12}-{d12}-{h32}",
    "slack-legacy-workspace-token": "xoxa-{a40}",
    "slack-user-token": "xoxp-{d12}-{d12}-{d12}-{h32}",
    "slack-webhook-url": "https://hooks.slack.com/services/{u44}",
    "sonar-api-token": "sqp_{l40}",
    "sourcegraph-access-token": "sgp_{h16}_{h40}",
    "square-access-token": "sq0atp-{a22}",
    "square-access-token (EAAA)": "EAAA{a60}",
    "stripe-access-token": "rk_live_{a24}",
    "telegram-bot-api-token": "{d10}:AA{a33}",
    "twilio-api-key": "SK{h32}",
    "twitter-bearer-token": "AAAAAAAAAAAAAAAAAAAAAA{a90}",
    "typeform-api-token": "tfp_{l59}",
    "vault-batch-token": "hvb.{a140}",
    "vault-service-token": "hvs.{a95}",
    "yandex-access-token": "t1.{a60}.{a86}",
    "yandex-api-key": "AQVN{a36}",
}
"""By the name of the rule. Left out are rules that know a secret only by a word beside it (``fastly``), for
which the name of the field decides; files; and prefixes of one or two letters (``s.``, ``b_``, ``YC``, ``su``,
``00``), which are not distinctive."""


_PYTHON = Redactor(engine="python")
_REPEATED = "The quick brown fox, jumps over. " * 400
_VARIED = " ".join(f"item{number:x}" for number in range(40_000, 42_000))


@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("seed", ["first", "second"])
def test_a_secret_that_a_public_rule_knows_is_removed(rule: str, seed: str) -> None:
    text, cores = made(RULES[rule], f"{rule} {seed}")
    assert cores
    redactor = Redactor()
    value = {"note": f"It is {text} here.", "json": json.dumps({"x": text}), "raw": text.encode()}
    assert redactor.suspects(text.encode())
    # Behind an escape, and in the long texts of which the gate of plain Python makes an index.
    for before in ("\\n", "%20", "\\u001b[31m", _REPEATED, _VARIED):
        long = (before + " " * (before in (_REPEATED, _VARIED)) + text).encode()
        assert _PYTHON.suspects(long), before[:20]
    clean = redactor.redact(value).value
    shown = repr(clean)
    assert [core for core in cores if core in shown] == []
    assert PLACEHOLDER in clean["note"]
    assert redactor.redact(clean).marks == ()
