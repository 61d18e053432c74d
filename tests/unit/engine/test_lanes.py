"""What a worker remembers of its lanes, and which it asks next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf

import pytest
from hypothesis import given, strategies as st

from mutirao.engine.claiming.lane_positions import (
    FEW_LANES,
    LIVELY_SECONDS,
    MAX_DUE_TIMES_PER_LANE,
    MOST_LANES,
    LaneBook,
    many_lanes_noted,
)
from mutirao.errors import StoreBusy
from mutirao.model.jobs.job import Claim, Lane, LaneHead, Wake
from mutirao.model.moments import BEFORE_ALL_JOBS

NOW = 1_000.0  # on the monotonic clock
MOMENT = datetime(2026, 3, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return the moment so many seconds later."""
    return MOMENT + timedelta(seconds=seconds)


def lane(queue: str = "a", priority: int = 0, seconds: float = 0, id: int = 1) -> Lane:
    """Return a lane with a bound."""
    return Lane(queue, priority, at(seconds), id)


def claim(of: Lane) -> Claim:
    """Return the claim of a job that stands at a lane's bound."""
    asked = ("t", "{}", of.queue, of.priority, of.run_at, MOMENT)
    return Claim(of.id, 1, 1, *asked, None, None, None, None, None, None, None, None)


def book(*heads: tuple[Lane, float], queues: frozenset[str] | None = None) -> LaneBook:
    """Return a book that has read these heads at NOW."""
    lanes = LaneBook(queues)
    lanes.asking()
    lanes.refresh([LaneHead(*head) for head in heads], NOW)
    return lanes


def test_nothing_is_known_at_first() -> None:
    """No lane is asked, and nothing is waited for."""
    assert (book().due(NOW), book().next_due()) == ([], inf)


def test_heads_say_what_is_due() -> None:
    """Now, or when."""
    lanes = book((lane("a"), -5), (lane("b"), 30), (lane("c"), 0))
    assert {each.queue for each in lanes.due(NOW)} == {"a", "c"}
    lanes.exhausted(lanes.due(NOW))
    assert lanes.next_due() == NOW + 30
    assert lanes.due(NOW + 29.9) == []
    assert lanes.due(NOW + 30) == [lane("b")]


def test_lanes_that_are_left_out() -> None:
    """Neither heads nor wake-ups of theirs count."""
    lanes = LaneBook(None, but=frozenset({"a"}))
    lanes.asking()
    lanes.refresh([LaneHead(lane("a"), 0), LaneHead(lane("b"), 30)], NOW)
    assert lanes.wake(Wake("a", 0, MOMENT), NOW, 0)
    assert (lanes.due(NOW), lanes.next_due()) == ([], NOW + 30)


def test_a_due_lane_is_due_until_it_is_exhausted() -> None:
    """It may have more jobs than one claim takes."""
    lanes = book((lane(), 0))
    assert lanes.due(NOW) == lanes.due(NOW + 1) == [lane()]
    lanes.exhausted([lane()])
    assert (lanes.due(NOW + 2), lanes.next_due()) == ([], inf)


def test_by_priority_then_in_turns() -> None:
    """Smaller priorities first; of equal ones each is in front as often as the others.

    A claim that finds nothing is nobody's turn.
    """
    lanes = book(
        *((lane(queue, priority), 0) for queue in "abc" for priority in (5, -5)),
    )
    fronts = []
    for _ in range(6):
        asked = lanes.due(NOW)
        assert [each.priority for each in asked] == [-5] * 3 + [5] * 3
        assert {each.queue for each in asked[:3]} == {"a", "b", "c"}
        fronts.append((asked[0].queue, asked[3].queue))
        lanes.claimed([claim(asked[0])], NOW)
        lanes.claimed([], NOW)
    for front in zip(*fronts, strict=True):
        assert sorted(front) == sorted("abcabc")


def test_many_are_asked_about_in_parts() -> None:
    """All have their turn, of one priority, before any comes again; smaller priorities first."""
    queues = [f"q{n:05}" for n in range(3 * MOST_LANES + 7)]
    lanes = book(*((lane(queue), 0) for queue in queues), (lane("first", -1), 0))
    came: list[str] = []
    for _ in range(4):
        first, *asked = lanes.due(NOW)
        assert (first.queue, len(asked), lanes.in_parts) == ("first", MOST_LANES - 1, True)
        came += [each.queue for each in asked]
        lanes.claimed([claim(each) for each in asked], 0.0)
    assert came[: len(queues)] == queues


def test_parts_in_which_nothing_is() -> None:
    """They are left out until the next refresh, so the others come."""
    queues = [f"q{n:05}" for n in range(2 * MOST_LANES + 1)]
    lanes, came = book(*((lane(queue), 0) for queue in queues)), 0
    while lanes.in_parts or not came:
        asked = lanes.due(NOW)
        came += len(asked)
        lanes.exhausted(asked)
    assert (came, lanes.due(NOW)) == (len(queues), [])


def test_a_claim_that_took_too_long() -> None:
    """Says how many lanes there are, if that may be why."""
    few = book((lane(), 0))
    many = book(*((lane(str(n)), 0) for n in range(FEW_LANES + 1)))
    for lanes, said in ((few, "slow"), (many, "slow; jobs wait in 1,001 lanes: see")):
        with pytest.raises(StoreBusy, match=said) as told_of, many_lanes_noted(lanes):
            raise StoreBusy("slow")
        assert ("doctor" in str(told_of.value)) == (lanes is many)


def test_claims_move_the_bound_up() -> None:
    """To the last job that was taken, in the lane's order."""
    lanes = book((lane("a", id=1), 0), (lane("b"), 0))
    reached = lane("a", seconds=7, id=9)
    lanes.claimed([claim(lane("a", id=1)), claim(reached)], NOW)
    assert set(lanes.due(NOW)) == {reached, lane("b")}


def test_claims_of_an_unknown_lane_are_no_trouble() -> None:
    """It was forgotten meanwhile."""
    lanes = book()
    lanes.claimed([claim(lane())], NOW)
    lanes.exhausted([lane()])
    assert lanes.due(NOW) == []


def test_a_refresh_makes_the_bounds_exact() -> None:
    """Lower or higher, and forgets lanes that are empty."""
    lanes = book((lane("a", seconds=50), 0), (lane("b"), 0))
    lanes.refresh([LaneHead(lane("a", seconds=-50), -1)], NOW)
    assert lanes.due(NOW) == [lane("a", seconds=-50)]


def test_reading_far_heads_again_and_again_is_remembered_once() -> None:
    """A job that is due in a year does not fill the memory for nearer ones."""
    lanes = book()
    for second in range(2 * MAX_DUE_TIMES_PER_LANE):
        lanes.refresh([LaneHead(lane(), 1e6 - second)], NOW + second)
    now = NOW + 2 * MAX_DUE_TIMES_PER_LANE
    assert lanes.wake(Wake("a", 0, at(5)), now, 5)
    assert lanes.next_due() == now + 5


class TestWakes:
    """A notification names a lane, or none."""

    def test_without_a_lane(self) -> None:
        """Whoever asks has to read the heads."""
        lanes = book()
        assert not lanes.wake(Wake(), NOW, 0)
        assert lanes.due(NOW) == []

    @pytest.mark.parametrize("ahead", [0.0, -50.0])
    def test_a_new_lane(self, ahead: float) -> None:
        """Is asked from the job that was announced; one in the past is due now."""
        lanes = book()
        assert lanes.wake(Wake("a", 3, at(ahead)), NOW, ahead)
        assert lanes.due(NOW) == [Lane("a", 3, at(ahead), 0)]

    def test_a_job_for_later(self) -> None:
        """Is waited for."""
        lanes = book((lane(), 3600))
        assert lanes.wake(Wake("a", 0, at(20)), NOW, 20)
        assert (lanes.due(NOW), lanes.next_due()) == ([], NOW + 20)
        assert lanes.due(NOW + 20) != []
        lanes.exhausted(lanes.due(NOW + 20))
        assert lanes.next_due() == NOW + 3600

    def test_another_worker_s_queue(self) -> None:
        """Is no business of ours, but needs no further look either."""
        lanes = book(queues=frozenset({"mail"}))
        assert lanes.wake(Wake("other", 0, at(0)), NOW, 0)
        assert lanes.due(NOW) == []
        assert lanes.wake(Wake("mail", 0, at(0)), NOW, 0)
        assert [each.queue for each in lanes.due(NOW)] == ["mail"]

    def test_a_job_before_the_bound(self) -> None:
        """Lowers it; one behind it does not raise it."""
        lanes = book((lane(seconds=10, id=5), 0))
        lanes.wake(Wake("a", 0, at(20)), NOW, 20)
        assert lanes.due(NOW) == [lane(seconds=10, id=5)]
        lanes.wake(Wake("a", 0, at(-20)), NOW, -20)
        assert lanes.due(NOW) == [lane(seconds=-20, id=0)]

    def test_during_a_claim(self) -> None:
        """The claim's bound does not hide what was announced while it was on its way."""
        lanes = book((lane(), 0))
        lanes.asking()
        lanes.wake(Wake("a", 0, at(1)), NOW, 0)
        lanes.claimed([claim(lane(seconds=5, id=9))], NOW)
        lanes.exhausted([lane()])
        assert lanes.due(NOW) == [lane(seconds=1, id=0)]

    def test_while_the_heads_are_read(self) -> None:
        """The answer may not know of it yet."""
        lanes = book()
        lanes.asking()
        lanes.wake(Wake("a", 0, at(0)), NOW, 0)
        lanes.refresh([], NOW)
        assert lanes.due(NOW) == [lane(id=0)]

    def test_before_the_store_is_asked(self) -> None:
        """Is part of its answer, and needs no second look."""
        lanes = book()
        lanes.wake(Wake("a", 0, at(-9)), NOW, 0)
        lanes.asking()
        lanes.claimed([claim(lane(seconds=5, id=9))], NOW)
        assert lanes.due(NOW) == [lane(seconds=5, id=9)]


class TestExpectations:
    """Jobs that this worker knows of itself: retries and snoozes."""

    def test_they_are_due_in_their_order(self) -> None:
        """Each once, without moving the bound."""
        lanes = book((lane(seconds=10), 3600))
        for seconds in (30, 10, 20):
            lanes.expect("a", 0, NOW + seconds)
        for seconds in (10, 20, 30):
            assert lanes.next_due() == NOW + seconds
            assert lanes.due(NOW + seconds - 0.1) == []
            assert lanes.due(NOW + seconds) == [lane(seconds=10)]
            lanes.exhausted([lane()])
        assert lanes.next_due() == NOW + 3600

    def test_in_an_unknown_lane(self) -> None:
        """It is read from its beginning."""
        lanes = book()
        lanes.expect("new", 7, NOW)
        assert lanes.due(NOW) == [Lane("new", 7, BEFORE_ALL_JOBS, 0)]

    def test_a_refresh_keeps_them(self) -> None:
        """Whether the lane has a head or not: they may be on their way into the table."""
        lanes = book((lane("a"), 3600))
        for queue in ("a", "b"):
            lanes.expect(queue, 0, NOW + 5)
        lanes.refresh([LaneHead(lane("a"), 3600)], NOW)
        assert {each.queue for each in lanes.due(NOW + 5)} == {"a", "b"}

    def test_they_do_not_grow_without_bound(self) -> None:
        """The poll finds the forgotten ones."""
        lanes = book()
        for n in range(3 * MAX_DUE_TIMES_PER_LANE):
            lanes.expect("a", 0, NOW + n)
        [entry] = lanes._entries.values()
        assert len(entry.expected) == MAX_DUE_TIMES_PER_LANE


@given(
    due=st.lists(st.integers(min_value=-100, max_value=100), max_size=8),
    look=st.integers(min_value=-50, max_value=200),
)
def test_a_lane_is_asked_exactly_when_something_may_be_due(due: list[int], look: int) -> None:
    """And a sleeper wakes no later than that."""
    lanes = book()
    for seconds in due:
        lanes.expect("a", 0, NOW + seconds)
    assert lanes.next_due() == min((NOW + seconds for seconds in due), default=inf)
    assert bool(lanes.due(NOW + look)) == any(seconds <= look for seconds in due)


def test_wake_ups_while_the_store_is_asked_for_long() -> None:
    """They are kept up to a limit: its answer tells of the lane in any case."""
    lanes = book()
    lanes.asking()
    for second in range(2 * MAX_DUE_TIMES_PER_LANE):
        lanes.wake(Wake("a", 0, at(second)), NOW, second)
    assert len(lanes._meanwhile or ()) == MAX_DUE_TIMES_PER_LANE


def test_who_is_not_told_looks_where_jobs_were_found() -> None:
    """Lately: in lanes that a claim has emptied, and that no head was read of since."""
    lanes = book((lane("a"), 0), (lane("b"), 0))
    lanes.claimed([claim(lane("a", id=1))], NOW)
    lanes.exhausted(lanes.due(NOW))
    assert lanes.due(NOW) == []
    lanes.suspect(NOW)
    assert lanes.due(NOW) == [lane("a", id=1)]
    lanes.refresh([], NOW, notified=False)
    assert lanes.due(NOW) == [lane("a", id=1)]
    lanes.refresh([], NOW + LIVELY_SECONDS, notified=False)
    assert lanes.due(NOW + LIVELY_SECONDS) == []
