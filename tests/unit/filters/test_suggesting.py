"""What is suggested while a filter is typed."""

from __future__ import annotations

from hypothesis import given, strategies as st

from mutirao.model.filters.filter import parse
from mutirao.model.filters.suggesting import MOST_SUGGESTIONS, Known, suggest

KNOWN = Known(queues=("mail", "video", "x m"), tasks=("send", "resend"), errors=("shop.Busy",))


def completed(text: str, at: int | None = None) -> list[str]:
    """Return the texts that result from each suggestion."""
    return [text[: s.start] + s.text + text[s.end :] for s in suggest(text, at, KNOWN)]


def test_qualifiers() -> None:
    """By how they begin; also where a term is negated, and in the middle of a text."""
    assert completed("")[:3] == ["state:", "task:", "queue:"]
    assert completed("st")[0] == "state:"
    assert completed("-qu") == ["-queue:"]
    assert completed("state:dead ta queue:mail", 13)[0] == "state:dead task: queue:mail"
    assert completed("sate")[0] == "state:"
    assert completed("ar") == ["arg."]


def test_values() -> None:
    """States, and the names that are known; quoted where they have to be."""
    assert completed("state:dea") == ["state:dead"]
    assert completed("state:dead,re")[0] == "state:dead,ready"
    assert completed("queue:") == ["queue:mail", "queue:video", 'queue:"x m"']
    assert completed('queue:"x') == ['queue:"x m"']
    assert completed("task:send") == ["task:send", "task:resend"]
    assert completed("error:busy") == ["error:shop.Busy"]
    assert completed("older:") == ["older:2h"]
    assert completed("arg.order_id:") == ["arg.order_id:7"]
    assert completed("nonsense:x") == []


def test_what_is_suggested_can_be_read() -> None:
    """A suggested value is one."""
    for text in ("state:", "queue:", "task:", "error:", "id:", "older:", "before:", "arg.a:"):
        for whole in completed(text):
            assert parse(whole)


@given(st.text(max_size=60), st.integers(-5, 80), st.lists(st.text(max_size=8), max_size=30))
def test_nothing_is_raised(text: str, at: int, names: list[str]) -> None:
    """Whatever is typed, and whatever the names are: a few suggestions."""
    found = suggest(text, at, Known(queues=tuple(names), tasks=tuple(names)))
    assert len(found) <= MOST_SUGGESTIONS
    assert all(0 <= each.start <= each.end <= len(text) for each in found)
