"""Secrets are blanked by the names of values, and by what texts look like; nothing else is."""

from __future__ import annotations

import time

import pytest

from mutirao.model.blanking import BLANK, Blanking

RULE = Blanking()


@pytest.mark.parametrize(
    "name",
    ["password", "userPassword", "API_KEY", "apiKey", "x-auth-token", "client_secret", "senha",
     "Authorization", "Set-Cookie", "sessionId", "PrivateKey", "card_number", "DB_DSN",
     "dbpassword", "accesstoken", "secretkey", "db_pass", "passwords", "api_keys", "auth",
     "smtpPass", "private-keys", "accessTokens", "credential"],
)  # fmt: skip
def test_values_of_such_names_are_blanked(name: str) -> None:
    """Whatever they are, wherever they are."""
    assert RULE.value({"a": [{name: "x"}]}) == {"a": [{name: BLANK}]}
    assert RULE.value({name: {"deep": 7}}) == {name: BLANK}


@pytest.mark.parametrize(
    "name",
    ["order_id", "key", "primary_key", "tokenizer_name", "keyboard", "passenger", "author", "path",
     "compass", "secretary", "pinned", "session", "number", "authors", "bypass", "passport",
     "monkeys", "keys", "tokenized"],
)  # fmt: skip
def test_values_of_other_names_stay(name: str) -> None:
    """A word that has such a word in it is another word."""
    assert RULE.value({name: "a plain text"}) == {name: "a plain text"}


def test_names_may_be_added() -> None:
    """In any case, and in texts, too; what is empty shows that it is."""
    rule = Blanking(["cpf", "a.b("])
    assert (
        rule.text("cpf=12345678900, CPF: 7 and a.b(=x")
        == f"cpf={BLANK}, CPF: {BLANK} and a.b(={BLANK}"
    )
    assert rule.text('{"cpf": "123 456"} of xcpf=1') == f'{{"cpf": {BLANK}}} of xcpf=1'
    assert Blanking().text("cpf=12345678900") == "cpf=12345678900"
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
        ('password="hunter2hunter2', f"password={BLANK}"),
        ("password='hunter2\nnext line", f"password={BLANK}\nnext line"),
        ("db_pass=x and auth: failed", f"db_pass={BLANK} and auth: failed"),
        ("accesstoken=x dbpassword: y", f"accesstoken={BLANK} dbpassword: {BLANK}"),
        ('password="abc\\\\\nnext', f"password={BLANK}\nnext"),
        ("compass=north, author: ana", "compass=north, author: ana"),
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
     'secret="' * 40_000, "-----BEGIN PRIVATE KEY-----" * 9_000, "x" * 1_000_000,
     "a" * 60_000, "y " * 40_000 + "y" * 10_000],
)  # fmt: skip
def test_hostile_texts_are_read_in_bounded_time(text: str) -> None:
    """Half a second of a processor would be much; it takes a few hundredths."""
    began = time.process_time()
    RULE.text(text)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "value",
    [["short"] * 300_000, {str(each): each for each in range(300_000)}, ["b" * 40_000] * 200,
     [[{"a": ["x y"] * 50}] * 50] * 50, {"c" * 60_000 + str(each): 1 for each in range(100)}],
    ids=["list", "mapping", "texts", "nested", "names"],
)  # fmt: skip
def test_large_values_are_read_in_bounded_time(value: object) -> None:
    """Of many items the first ones are looked at; the rest is blanked as one."""
    began = time.process_time()
    shown = RULE.value(value)
    assert time.process_time() - began < 0.5
    assert len(str(shown)) < 250_000
    assert BLANK in str(shown) or "…" in str(shown)


def test_a_list_of_values_looks_at_less_of_each() -> None:
    """What is shown in a row is short; what was looked at stands, and the rest is blanked."""
    assert RULE.value([1, 2, 3, 4], items=3) == [1, 2, BLANK]
    assert RULE.value({"a": 1, "b": "some words"}, characters=8) == {"a": 1, "b": "some …"}
    assert RULE.value({"a": "some words", "b": 1}, characters=8) == {"a": "some …", BLANK: BLANK}


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
