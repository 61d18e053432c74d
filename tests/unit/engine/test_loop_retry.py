"""Which failures of a loop are warnings: all, the first of an outage, or each text once."""

from __future__ import annotations

import logging

import pytest

from mutirao.engine.loops import MOST_TEXTS, LoopRetry, Once
from mutirao.errors import StoreUnavailable, TransportDenied, TransportError, TransportUnavailable


def warned(once: Once | None, texts: list[str], caplog: pytest.LogCaptureFixture) -> list[str]:
    """Meet these errors in an outage, and then the first again; return what was warned of."""
    trouble = LoopRetry("cannot", "again", 1.0, once=once)
    for text in texts:
        trouble.met(StoreUnavailable(text))
    trouble.over()
    trouble.met(StoreUnavailable(texts[0]))
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    return [said.removeprefix("cannot: ").split(";")[0] for said in warnings]


@pytest.mark.parametrize(
    ("once", "expected"),
    [
        (None, ["a", "b", "a", "the database is back", "a"]),
        ("text", ["a", "b", "the database is back", "a"]),
        ("outage", ["a", "the database is back", "a"]),
    ],
)
def test_what_is_a_warning(
    once: Once | None, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it is, the next outage is told again."""
    assert warned(once, ["a", "b", "a"], caplog) == expected


def test_texts_have_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    """An outage whose errors all say something else does not fill the log, nor the memory."""
    texts = [str(number) for number in range(2 * MOST_TEXTS)]
    expected = [*texts[:MOST_TEXTS], "the database is back", "0"]
    assert warned("text", texts, caplog) == expected


def test_what_people_have_to_mend_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """Once; a broker that is away is a warning."""
    trouble = LoopRetry("cannot", "again", 1.0, once="text")
    for error in (TransportUnavailable("away"), *[TransportError("no such queue")] * 2):
        trouble.met(error)
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert trouble.failing
    assert trouble.forget()
    assert not trouble.failing


def test_what_people_have_to_mend_is_told_each_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Until it is mended; what passes is not."""
    now = 0.0
    trouble = LoopRetry("cannot", "again", 1.0, once="text", clock=lambda: now)
    for second in range(130):
        now = float(second)
        trouble.met(TransportDenied("a wrong password"))
        assert trouble.unmended == "cannot: a wrong password"
    assert [record.levelname for record in caplog.records] == 3 * ["ERROR"]
    trouble.met(TransportUnavailable("away"))
    assert trouble.unmended is None
