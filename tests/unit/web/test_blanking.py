"""Secrets are blanked by the names of values, and by what texts look like; nothing else is."""

from __future__ import annotations

import time

import pytest

from mutirao.model.blanking import BLANK, Blanking

RULE = Blanking()


@pytest.mark.parametrize(
    "name",
    ["password", "userPassword", "API_KEY", "apiKey", "x-auth-token", "client_secret", "senha",
     "Authorization", "Set-Cookie", "sessionId", "PrivateKey", "card_number", "DB_DSN"],
)  # fmt: skip
def test_values_of_such_names_are_blanked(name: str) -> None:
    """Whatever they are, wherever they are."""
    assert RULE.value({"a": [{name: "x"}]}) == {"a": [{name: BLANK}]}
    assert RULE.value({name: {"deep": 7}}) == {name: BLANK}


@pytest.mark.parametrize(
    "name",
    ["order_id", "key", "primary_key", "tokenizer_name", "keyboard", "passenger", "author", "path",
     "compass", "secretary", "pinned", "session", "number"],
)  # fmt: skip
def test_values_of_other_names_stay(name: str) -> None:
    """A word that has such a word in it is another word."""
    assert RULE.value({name: "a plain text"}) == {name: "a plain text"}


def test_names_may_be_added() -> None:
    """In any case; what is empty shows that it is."""
    rule = Blanking(["cpf"])
    assert rule.value({"CPF": "123", "cpf": None}) == {"CPF": BLANK, "cpf": None}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://app:hunter2@db/x refused", f"postgresql://{BLANK}@db/x refused"),
        ("amqp://u:p/w@h", f"amqp://{BLANK}@h"),
        ("GET /x?token=abc&page=2", f"GET /x?token={BLANK}&page=2"),
        ("password='a b c' rest", f"password={BLANK} rest"),
        ('{"apiKey": "abc", "n": 1}', f'{{"apiKey": {BLANK}, "n": 1}}'),
        ("Authorization: Basic dXNlcjpwYXNz\nHost: x", f"Authorization: {BLANK}\nHost: x"),
        ("sent Bearer abcdefghijkl", f"sent Bearer {BLANK}"),
        ("key AKIAABCDEFGHIJKLMNOP here", f"key {BLANK} here"),
        ("sk_live_abcdefgh1234 is wrong", f"{BLANK} is wrong"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.abc", BLANK),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", BLANK),
        ("secret_key = 'x'", f"secret_key = {BLANK}"),
    ],
)
def test_texts_lose_what_looks_like_a_secret(text: str, shown: str) -> None:
    """And keep the rest, so that an error is still understood."""
    assert RULE.text(text) == shown


@pytest.mark.parametrize(
    "text",
    ["https://example.com/a?page=2", "a password is missing", "ana@example.com: no such user",
     "expected ':' after key", "see http://localhost:8000/x for user @ana"],
)  # fmt: skip
def test_other_texts_stay(text: str) -> None:
    """Talking of a secret is none."""
    assert RULE.text(text) == text


@pytest.mark.parametrize(
    "text",
    ["a://" * 50_000, "eyJ-" * 50_000, "password=" * 30_000, "a-" * 90_000, "'" * 200_000,
     'secret="' * 40_000, "-----BEGIN PRIVATE KEY-----" * 9_000, "x" * 1_000_000],
)  # fmt: skip
def test_hostile_texts_are_read_in_bounded_time(text: str) -> None:
    """Half a second of a processor would be much; it takes a few hundredths."""
    began = time.process_time()
    RULE.text(text)
    assert time.process_time() - began < 1.0


def test_a_long_text_is_cut_before_a_secret_is() -> None:
    """What stands across the cut is left out, and not shown by half."""
    shown = RULE.text("x " * 24_990 + "sk_live_" + "a" * 100)
    assert "sk_live" not in shown
    assert shown.endswith("…")


def test_what_is_too_deep_is_not_shown() -> None:
    """Nothing recurses without end."""
    deep: object = "end"
    for _ in range(500):
        deep = [deep]
    assert BLANK in str(RULE.value(deep))
    assert "end" not in str(RULE.value(deep))
