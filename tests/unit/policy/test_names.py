from __future__ import annotations

import pytest

from reenact.policy.redaction.names import Names, is_cookie, is_log_probability, normalise

SECRET = """
password passwd pwd passphrase Password user_password password2 password_confirmation db.passwd
secret client_secret clientSecret CLIENT-SECRET secrets secret_key secretAccessKey aws_secret_access_key
token access_token accessToken refresh_token id_token auth_token session_token x-amz-security-token
csrf_token csrfmiddlewaretoken xsrf X-CSRFToken access_tokens GITHUB_TOKEN bot_token
apikey api_key api-key API.KEY OPENAI_API_KEY x-api-key X-Goog-Api-Key api_keys api_key_1 openai_apikey
access_key private_key privateKey signing_key encryption_key account_key ocp-apim-subscription-key
credential credentials AWS_CREDENTIALS authorization Authorization PROXY-AUTHORIZATION x-authorization
pass db_pass DB_PASS user_pass dbPass user[pass] pw passcode pin user_pin userPin cvv cardCvc card_number
cardNumber session_id sessionId PHPSESSID sid connect.sid auth REDISCLI_AUTH SAMLResponse verification_code
recovery_codes auth_code mnemonic seed_phrase X-Session _gitlab_session security_code
cookie Set-Cookie cookies dpop DPoP jwt client[secret] user[password][0] connection_string GITHUB_PAT
""".split()

NOT_SECRET = """
max_tokens prompt_tokens completion_tokens total_tokens tokens token_count tokenCount num_tokens
cached_tokens max_completion_tokens budget_tokens tokens_per_second time_to_first_token price_per_token
page_token next_page_token nextPageToken pageToken NextToken continuation_token syncToken nextSyncToken
token_type tokenizer token_ids eos_token pad_token_id stop_token progressToken progress_token
sessionKey session_key Mcp-Session-Id idempotency_key Idempotency-Key cache_key public_key primary_key
id call_id tool_call_id item_id response_id previous_response_id signature thinkingSignature
thought_signature encrypted_content system_fingerprint key keys keyboard author author_id authority
passenger secretary cookie_policy PWD OLDPWD password_policy tokenized name content role model path
patch compat compass bypass low_pass spin inside oauth author code status_code zip_code GOOGLE_APPLICATION_CREDENTIALS hotpot laptop
""".split()


@pytest.mark.parametrize("name", SECRET)
def test_secret_names(name: str) -> None:
    assert Names().secret(name)


@pytest.mark.parametrize("name", NOT_SECRET)
def test_names_that_only_look_secret(name: str) -> None:
    assert not Names().secret(name)


def test_the_caller_adds_names_in_any_spelling() -> None:
    names = Names(secret=["X-Corp-Pin", "max_tokens"])
    assert names.secret("xCorpPin")
    assert names.secret("x_corp_pin")
    assert names.secret("maxTokens")
    assert not names.secret("corp")


def test_the_caller_excuses_names_and_has_the_last_word() -> None:
    names = Names(secret=["token"], not_secret=["device-token", "TOKEN"])
    assert not names.secret("deviceToken")
    assert not names.secret("token")
    assert names.secret("access_token")


def test_a_lookalike_letter_is_another_letter() -> None:
    assert not Names().secret("toKen".replace("K", "\N{KELVIN SIGN}"))


def test_the_cache_is_bounded_and_changes_nothing() -> None:
    names = Names()
    for number in range(10_000):
        assert not names.secret(f"field{number}x")
    assert names.secret("password")
    assert len(names._cache) <= 5_000


def test_normalise_keeps_letters_and_digits() -> None:
    assert normalise("X-Api_Key.2é") == "xapikey2"


def test_cookie_headers_and_log_probabilities() -> None:
    assert is_cookie("Set-Cookie")
    assert is_cookie("cookie")
    assert not is_cookie("cookies")
    assert is_log_probability("logprob")
    assert is_log_probability("logProbability")
    assert not is_log_probability("log")
