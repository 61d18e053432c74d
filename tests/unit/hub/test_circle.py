"""Which idle workers a hub tells to look."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from mutirao.hub.circle import LATER, MANY, Circle
from mutirao.hub.protocol import Serves, WakeLine


@dataclass(eq=False)
class Worker:
    """A worker of which only its wishes are known."""

    serves: Serves | None


def circle(*serves: Serves | None) -> tuple[Circle, list[Worker]]:
    """Return a circle of workers, and the workers."""
    made, workers = Circle(), [Worker(each) for each in serves]
    for worker in workers:
        made.add(worker)
    return made, workers


def turns(made: Circle, line: WakeLine) -> list[int]:
    """Return how many look before each that is chosen."""
    return [after for _, after in made.choose(line)]


@pytest.mark.parametrize(
    ("workers", "jobs", "expected"),
    [
        (0, 1, []),
        (1, 1, [0]),
        (2, 1, [0, 1]),
        (10, 1, [0, 1, 2, 3]),
        (10, 3, [0, 0, 0, 1, 2, 3]),
        (5, 5, [0] * 5),
        (100, MANY, [0] * 100),
    ],
)
def test_as_many_as_there_are_jobs_and_some_more(
    workers: int, jobs: int, expected: list[int]
) -> None:
    """One looks at once for each job; three look later, in case they do not."""
    made, _ = circle(*(Serves() for _ in range(workers)))
    assert turns(made, WakeLine("mail", jobs=jobs)) == expected


def test_all_look_where_no_lane_is_known() -> None:
    """Whoever serves anything may have to."""
    made, _ = circle(*(Serves() for _ in range(10)))
    assert turns(made, WakeLine()) == [0] * 10


def test_each_gets_its_share() -> None:
    """Jobs that come one after another are for different workers."""
    made, _ = circle(*(Serves() for _ in range(7)))
    first: Counter[object] = Counter()
    for _ in range(70):
        first.update(member for member, after in made.choose(WakeLine("mail")) if not after)
    assert sorted(first.values()) == [10] * 7


@pytest.mark.parametrize(
    ("serves", "line", "chosen"),
    [
        (Serves(), WakeLine("mail"), True),
        (Serves(("mail",)), WakeLine("mail"), True),
        (Serves(("mail",)), WakeLine("\x1fmail"), True),
        (Serves(("mail",)), WakeLine("other"), False),
        (Serves(("mail",)), WakeLine(), True),
        (Serves(exclude=("mail",)), WakeLine("mail"), False),
        (Serves(exclude=("mail",)), WakeLine("other"), True),
        (Serves(tasks=("send",)), WakeLine("mail", task="send"), True),
        (Serves(tasks=("send",)), WakeLine("mail", task="other"), False),
        (Serves(tasks=("send",)), WakeLine("mail"), True),
        (Serves(idle=False), WakeLine("mail"), False),
        (Serves(idle=False), WakeLine(), False),
        (None, WakeLine(), False),
    ],
)
def test_only_idle_ones_that_serve_it(serves: Serves | None, line: WakeLine, chosen: bool) -> None:
    """By queue, fair lanes too, and by task where it is known."""
    made, _ = circle(serves)
    assert turns(made, line) == [0] * chosen


def test_who_leaves_or_is_busy_is_not_chosen_again() -> None:
    """What was remembered of a queue is forgotten."""
    made, [one, other] = circle(Serves(), Serves())
    assert len(turns(made, WakeLine("mail"))) == 2
    other.serves = Serves(idle=False)
    made.add(other)
    assert [member for member, _ in made.choose(WakeLine("mail"))] == [one]
    made.remove(one)
    assert turns(made, WakeLine("mail")) == []


def test_memory_is_bounded() -> None:
    """However many queues there are."""
    made, _ = circle(*(Serves() for _ in range(LATER)))
    for n in range(5_000):
        list(made.choose(WakeLine(f"q-{n}")))
    assert len(made._able) <= 1_000
