"""Turns: jobs of a task with `fair_by` stand apart, where each value of it takes its turn.

They are live jobs like others, but in a lane whose name begins with `FAIR`, and they carry the
value. Whoever claims from such a lane takes one job of each value, round after round, beginning
with the value after the one that was served last. `take_turns` is that, for SQLite and the store in
memory; PostgreSQL says the same in functions of its own.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from mutirao.job import FAIR, Lane
from mutirao.limit import value_of

T = TypeVar("T")


def fair_lane(queue: str) -> str:
    """Return the name of the lanes in which jobs of a queue take turns."""
    return FAIR + queue


def is_fair(lane: str) -> bool:
    """Whether jobs take turns in lanes of this name."""
    return lane.startswith(FAIR)


def queue_of(lane: str) -> str:
    """Return the queue of lanes of this name."""
    return lane.removeprefix(FAIR)


def lanes_of(queues: Collection[str]) -> list[str]:
    """Return the names of all lanes of some queues."""
    return [*queues, *map(fair_lane, queues)]


def once(lanes: Iterable[Lane]) -> list[Lane]:
    """Return the lanes, of each queue only the first fair one: that stands for all priorities."""
    found: dict[tuple[str, int | None], Lane] = {}
    for lane in lanes:
        found.setdefault((lane.queue, None if is_fair(lane.queue) else lane.priority), lane)
    return list(found.values())


def turn_of(args: str, by: str) -> str:
    """Return whose turn a job takes: never empty, which is what other jobs carry."""
    return f"={value_of(args, by)}"


def take_turns(lines: Iterable[Iterator[T]], most: int) -> list[T]:
    """Take the first of each line, then the next of each, and so on, up to `most`."""
    taken: list[T] = []
    while most > 0:
        behind: list[Iterator[T]] = []
        for line in lines:
            for each in islice(line, 1):
                taken.append(each)
                behind.append(line)
            if len(taken) == most:
                return taken
        if not behind:
            break
        lines = behind
    return taken
