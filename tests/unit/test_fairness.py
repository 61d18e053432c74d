"""Turns, as far as they need no store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from math import inf

import pytest

from mutirao import Mutirao
from mutirao.errors import InvalidJob, InvalidTask
from mutirao.model.jobs.job import FairClaim, Lane, LaneHead, Wake
from mutirao.model.limits.fairness import (
    fair_lane,
    fairness_value,
    is_fair,
    is_late,
    lanes_of,
    once,
    queue_of,
    shared,
)
from mutirao.testing import MemoryStore
from tests.support.engine import LaneBook

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def test_names() -> None:
    """A queue's fair lane is told from its others, and from those of other queues."""
    assert [is_fair(lane) for lane in lanes_of(["a", "b"])] == [False, False, True, True]
    assert queue_of(fair_lane("a")) == queue_of("a") == "a"


def test_one_fair_lane_of_a_queue() -> None:
    """Its priorities are one lane to a claim; those of others are not."""
    lanes = [Lane(name, priority, NOW, 0) for priority in (0, 1) for name in lanes_of(["q"])]
    assert once(lanes) == [*lanes[:2], lanes[2]]


@pytest.mark.parametrize("late_next", [0, 1])
@pytest.mark.parametrize(("others", "late"), [(3, 3), (5, 0), (0, 3), (2, 6)])
def test_shares_of_late_jobs(late_next: int, others: int, late: int) -> None:
    """Every other one is late, from where that was left, while there are both."""
    some = [f"o{n}" for n in range(others)], [f"l{n}" for n in range(late)]
    merged = shared(*some, late_next)
    assert [each for each in merged if each in some[0]] == some[0]
    assert [each for each in merged if each in some[1]] == some[1]
    mixed = "".join(each[0] for each in merged)[: 2 * min(others, late)]
    assert mixed == ("lo" if late_next else "ol") * min(others, late)


def test_late() -> None:
    """Whoever took turns, and is in the plain lane."""
    assert is_late("q", "=a")
    assert not is_late(fair_lane("q"), "=a")
    assert not is_late("q", "")


@pytest.mark.parametrize("args", ["{}", '{"by":null}', '{"by":""}'])
def test_a_missing_value(args: str) -> None:
    """It is a value, too."""
    assert fairness_value(args, "by") == fairness_value("{}", "by") != ""


def test_bounds_do_not_move() -> None:
    """Of a fair lane the jobs are not claimed in their order."""
    book, lane = LaneBook(frozenset(lanes_of(["q"]))), Lane(fair_lane("q"), 0, NOW, 3)
    book.refresh([LaneHead(lane, 0.0)], 0.0)
    values = (5, 1, 1, "t", "{}", "q", 0, NOW, NOW, None, None, None, None, None, None, None, None)
    book.claimed([FairClaim(*values)], 0.0)
    assert book.due(1.0) == [lane]
    book.exhausted([lane])
    assert book.next_due() == inf
    assert book.wake(Wake(lane.queue, 0, NOW), 2.0, 0.0)
    assert book.next_due() == 2.0


def test_bad_input() -> None:
    """An argument that the handler does not have is refused where it is named."""
    app = Mutirao(store=MemoryStore())
    with pytest.raises(InvalidTask, match="fair_by of task 'send' is 'customer'"):

        @app.task(fair_by="customer")
        def send(address: str) -> None: ...

    @app.task
    def plain(address: str) -> None: ...

    with pytest.raises(InvalidJob, match="queue name"):
        plain.using(queue=fair_lane("q")).enqueue("a@example.org")


def test_enqueued_at_once() -> None:
    """The code that enqueues knows of it; no worker has to have been there before."""
    app = Mutirao(store=MemoryStore())

    @app.task(fair_by="tenant", queue="q")
    def send(tenant: str) -> None: ...

    @send.on_dead
    def bury(dead: object) -> None: ...

    send.enqueue("a")
    app.enqueue_many([send.job("b")])
    heads = asyncio.run(app.store.lanes(["q"]))
    assert [head.lane.queue for head in heads] == [fair_lane("q")]
    assert bury.__name__ == "bury"
    assert app.tasks["send.on_dead"].options.fair_by is None
