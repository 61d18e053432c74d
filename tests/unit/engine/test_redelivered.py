"""What a worker makes of messages that come again: whom it suspects, and what counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mutirao.engine.brokers.redelivered import CUT_LATELY, KEPT_FOR, MOST_KEPT, NOTED_FOR, Suspects
from mutirao.engine.dispatch.admission import SuspectTurn
from mutirao.engine.dispatch.executor import MAX_LOST_RUNS
from mutirao.model.brokers.message import Message

FRESH = Message(id="a", task="greet")
SUSPECT = replace(FRESH, suspect=True, lost=3)
NOTED = replace(SUSPECT, noted=True)


class Clock:
    """The monotonic time."""

    now = 100.0

    def __call__(self) -> float:
        """Return it."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def suspects(clock: Clock) -> Suspects:
    """Those of a queue."""
    return Suspects(clock)


@pytest.mark.parametrize(
    ("message", "returned", "judged"),
    [
        (FRESH, 0, FRESH),
        (FRESH, 1, replace(FRESH, suspect=True)),  # whether it began is not known
        (SUSPECT, 0, SUSPECT),
        (SUSPECT, 7, SUSPECT),  # handed out and not begun
        (NOTED, 0, NOTED),
        (NOTED, 2, replace(SUSPECT, lost=4)),  # a worker ended with it
    ],
)
def test_what_came(suspects: Suspects, message: Message, returned: int, judged: Message) -> None:
    """Only a noted start without an outcome counts."""
    assert suspects.judged(message, returned) == judged


def test_what_was_lost_with_a_connection(suspects: Suspects, clock: Clock) -> None:
    """The worker lives: it is no suspect, and counts from the beginning; for an hour."""
    suspects.cut(["a"])
    assert suspects.judged(FRESH, 1) == FRESH
    anew = replace(NOTED, lost=0)
    assert suspects.judged(NOTED, 1) == replace(anew, noted=False)  # to be said in the message
    assert suspects.judged(anew, 1) == anew
    other = replace(FRESH, id="b")
    assert suspects.judged(other, 1).suspect
    clock.now += KEPT_FOR + 1
    suspects.cut(f"{n}" for n in range(2 * MOST_KEPT))
    assert suspects.judged(FRESH, 1).suspect
    assert len(suspects._cut) == MOST_KEPT


def test_after_a_connection_is_back(suspects: Suspects, clock: Clock) -> None:
    """What comes again then was others', who were cut off as well."""
    suspects.connected_again()
    assert suspects.judged(FRESH, 1) == FRESH
    assert suspects.judged(NOTED, 1) == NOTED
    clock.now += CUT_LATELY
    assert suspects.judged(NOTED, 1).lost == 4


def test_each_connection_of_another_process(clock: Clock) -> None:
    """Ten in a row are ten starts, as nobody else knows that it lives; its own process does."""
    message, own = FRESH, Suspects(clock)
    own.cut([message.id])
    for cut in range(1, MAX_LOST_RUNS + 1):
        message = Suspects(clock).judged(message, 1)
        assert message.lost + message.suspect == cut
        message = replace(message, noted=True)
    assert own.judged(message, 1).lost == 0


def test_one_at_a_time_is_noted(suspects: Suspects, clock: Clock) -> None:
    """The next one once that has come back, or does not."""
    assert suspects.may_note()
    suspects.noting()
    assert not suspects.may_note()
    suspects.came_back()
    assert suspects.may_note()
    suspects.noting()
    clock.now += NOTED_FOR
    assert suspects.may_note()


def test_others_wait_the_longer_the_more_there_are() -> None:
    """Also over several batches: otherwise each would come again five times a second."""
    batch = SuspectTurn(taken=True)
    assert [batch.wait() for _ in range(3)] == pytest.approx([0.2, 0.4, 0.6])
    assert not batch.take()
    assert SuspectTurn(taken=True, later=batch.later).wait() == pytest.approx(0.8)
    assert SuspectTurn(taken=True, later=10_000).wait() == 30.0
