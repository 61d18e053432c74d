"""Tokens of schedules: what is one, whoever has put it into the queue."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from mutirao.model.schedules.token import Token

FIT: dict[str, Any] = {"loop": uuid4().hex, "tick": 1.0, "due": 2, "serial": 7, "notes": {"a": 1}}


def test_as_a_message_and_back() -> None:
    """Nothing is lost."""
    token = Token.of(json.dumps(FIT).encode())
    assert (token.serial, token.due, token.notes) == (7, 2, {"a": 1})
    assert Token.of(token.body()) == token


@pytest.mark.parametrize(
    "said",
    [
        {"loop": "x"}, {"loop": 5}, {"tick": "now"}, {"due": 1e300}, {"serial": "7"},
        {"phase": 1.5}, {"attempt": None}, {"lost": []}, {"holder": 5}, {"stopped": {}},
        {"timing": 1}, {"asks": 1}, {"notes": [1]}, {"notes": {"a": []}}, {"newer": 1},
    ],
)  # fmt: skip
def test_what_is_none(said: dict[str, Any]) -> None:
    """It is told as such, whatever it is: it must end no worker."""
    with pytest.raises(ValueError, match=r"token|UUID"):
        Token.of(json.dumps(FIT | said).encode())


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"7", b"[" * 60_000])
def test_what_is_no_object(body: bytes) -> None:
    """The same."""
    with pytest.raises(ValueError):  # noqa: PT011 (of JSON, or ours)
        Token.of(body)
