"""What a caller may ask to be sent, and what is read in an answer."""

from __future__ import annotations

import builtins
import importlib
import sys
from typing import Any

import pytest

from mutirao.errors import ConfigurationError, InvalidEndpoint
from mutirao.webhooks import Answer, Secret, Timeouts, WebhookRequest, new_key, new_secret
from mutirao.webhooks.answer import blanked, retry_after

NOW = 1_764_028_800.0  # Tue, 25 Nov 2025 00:00:00 GMT


def request(**options: Any) -> WebhookRequest:
    """Return a request that differs so from a plain one."""
    return WebhookRequest("https://example.com/", "msg_1", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "HEAD"}, "the method is 'HEAD'; expected one of"),
        ({"method": "post"}, "the method is 'post'"),
        ({"method": "GET", "body": b"x"}, "GET carries no body"),
        ({"redirects": 6}, "expected 0 to 5"),
        ({"redirects": -1}, "expected 0 to 5"),
        ({"headers": {"X": "a\r\nHost: b"}}, "header X is no text, has a line break"),
        ({"headers": {"X": "a\nb"}}, "line break"),
        ({"headers": {"X": "a\rb"}}, "line break"),
        ({"headers": {"X": "a\0b"}}, "line break"),
        ({"headers": {"X": "a\n"}}, "line break"),
        ({"headers": {"X": "ação"}}, "not ASCII"),
        ({"headers": {"X": " a"}}, "begins or ends with a space"),
        ({"headers": {"X": "a" * 8_193}}, "longer than 8,192"),
        ({"headers": {"X": 7}}, "is no text"),
        ({"headers": {"X\r\nY": "a"}}, "cannot be the name of a header"),
        ({"headers": {"X Y": "a"}}, "cannot be the name of a header"),
        ({"headers": {"X:": "a"}}, "cannot be the name of a header"),
        ({"headers": {"": "a"}}, "cannot be the name of a header"),
        ({"headers": {"X\n": "a"}}, "cannot be the name of a header"),
        ({"headers": {"Host": "a"}}, "set by the sender"),
        ({"headers": {"content-length": "1"}}, "set by the sender"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "set by the sender"),
        ({"headers": {"Webhook-Signature": "v1,x"}}, "set by the sender"),
        ({"headers": {"Webhook_Signature": "v1,x"}}, "set by the sender"),
        ({"headers": {"X-A": "a", "x-a": "b"}}, "given twice"),
        ({"headers": {"X-A": "a", "X_A": "b"}}, "X_A is given twice"),
        ({"secrets": [Secret.parse(Secret.parse(new_key()).public())]}, "cannot sign"),
    ],
)
def test_what_cannot_be_sent(options: dict[str, Any], message: str) -> None:
    """It is refused where the request is made."""
    with pytest.raises(InvalidEndpoint, match=message):
        request(**options)


@pytest.mark.parametrize("value", ["", "a", "a b\tc", "Bearer abc.def-_~+/=", "!~", "a" * 8_192])
def test_values_that_may_be_sent(value: str) -> None:
    """Visible ASCII with spaces inside."""
    assert request(headers={"X-Any": value}).headers == {"X-Any": value}


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["connect", "first_byte", "whole"])
def test_timeouts_are_lengths(name: str, seconds: float) -> None:
    """No attempt lasts for ever."""
    with pytest.raises(InvalidEndpoint, match=name):
        Timeouts(**{name: seconds})


def test_a_requests_repr_has_no_secrets() -> None:
    """Neither URL nor headers nor bodies nor secrets: who collects errors keeps local variables."""
    secret = new_secret()
    secrets = [Secret.parse(secret)]
    headers = {"Authorization": "Bearer s3"}
    made = WebhookRequest("https://a.example/s5", "m", b"s4", headers=headers, secrets=secrets)
    answer = Answer(200, 1.0, None, None, b"s4", False, None, made.url, made.headers)
    for each in (made, answer):
        assert not any(text in repr(each) for text in ("s3", "s4", "s5", secret[6:30]))


def test_headers_are_blanked_unless_known_to_be_harmless() -> None:
    """Who knows what an endpoint's own header is?"""
    sent = {"host": "x", "webhook-id": "m", "Authorization": "s", "X-Api-Key": "s", "cookie": "s"}
    shown = {**dict.fromkeys(sent, "***"), "host": "x", "webhook-id": "m"}
    assert blanked(sent) == shown


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (None, None),
        ("0", 0),
        (" 120 ", 120),
        ("86401", 86_400),
        ("9999999999", 86_400),
        ("99999999999", 86_400),
        ("9" * 20, 86_400),
        ("9" * 9_000, 86_400),
        ("0" * 9_000 + "7", 7),
        ("-5", None),
        ("-99999999999999999999", None),
        ("1.5", 1.5),
        ("1." + "5" * 9_000, 14 / 9),
        ("1.", None),
        ("1e9", None),
        ("٣", None),
        ("120, 60", None),
        ("soon", None),
        ("", None),
        ("Tue, 25 Nov 2025 00:01:30 GMT", 90),
        ("Tuesday, 25-Nov-25 00:01:30 GMT", 90),
        ("Tue Nov 25 00:01:30 2025", 90),
        ("Tue, 25 Nov 2025 01:01:30 +0100", 90),
        ("Mon, 24 Nov 2025 00:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
        ("Fri, 31 Dec 99999 23:59:59 GMT", 86_400),
        ("Fri, 31 Dec 99999999999999999999 23:59:59 GMT", 86_400),
        ("Tue, 99 Nov 2025 00:00:00 GMT", None),
        ("Tue, 25 Nov 2025 00:01:30 +99999999999", None),
        ("Tue, 25 Nov 0001 00:00:00 +2359", 0),
    ],
)
def test_retry_after(said: str | None, seconds: float | None) -> None:
    """Both forms, capped to a day; nonsense is none."""
    assert retry_after([said] if said is not None else [], NOW) == (
        seconds if seconds is None else pytest.approx(seconds)
    )


def test_without_the_extra_the_room_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core of the package needs none of it."""
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "httpx2":
            raise ModuleNotFoundError("No module named 'httpx2'", name="httpx2")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    monkeypatch.delitem(sys.modules, "mutirao.webhooks")
    with pytest.raises(ConfigurationError, match=r"'httpx2'.*pip install 'mutirao\[webhooks\]'"):
        importlib.import_module("mutirao.webhooks")
