"""Fairness: jobs of a task with `fair_by` are claimed in rounds over the values of that argument.

They are ordinary live jobs, but in a lane whose name begins with `FAIR_LANE_PREFIX`, and they carry
the value. A claim from such a lane takes one job of each value, round after round, and begins with
the value after the last served one. `mutirao.sql.rules.fairness` does that, and reads no more rows
than it takes; PostgreSQL does it in its own functions.

If the retry policy is `apart`, a retried job is *late*: it takes no turn, but waits in the plain
lane of its queue, by time. Claims alternate between equal lanes, and a limit that calls parked jobs
alternates between late ones and others. So neither side waits for all of the other.
"""

from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import TypeVar

from mutirao.model.jobs.lanes import FAIR_LANE_PREFIX, Lane
from mutirao.model.limits.limit_values import NOBODY, Whose, value_of

T = TypeVar("T")


def fair_lane(queue: str) -> str:
    """Return the name of the lanes for the fair jobs of a queue."""
    return FAIR_LANE_PREFIX + queue


def is_fair(lane: str) -> bool:
    """Return whether lanes of this name hold fair jobs."""
    return lane.startswith(FAIR_LANE_PREFIX)


def queue_of(lane: str) -> str:
    """Return the queue of lanes of this name."""
    return lane.removeprefix(FAIR_LANE_PREFIX)


def lanes_of(queues: Collection[str]) -> list[str]:
    """Return the names of all lanes of the given queues."""
    return [*queues, *map(fair_lane, queues)]


def once(lanes: Iterable[Lane]) -> list[Lane]:
    """Return the lanes, but of each queue only the first fair one, for all priorities."""
    found: dict[tuple[str, int | None], Lane] = {}
    for lane in lanes:
        found.setdefault((lane.queue, None if is_fair(lane.queue) else lane.priority), lane)
    return list(found.values())


def fairness_value(args: str, by: str, whose: Whose = NOBODY) -> str:
    """Return the value under which a fair job is served; never empty, as it is for other jobs."""
    return f"={value_of(args, by, whose)}"


def is_late(lane: str, fairness: str) -> bool:
    """Return whether a job takes no turns any more; `fairness`: the value by which it did."""
    return fairness != "" and not is_fair(lane)


def shared(others: Sequence[T], late: Sequence[T], late_next: int) -> list[T]:
    """Merge jobs that wait for a limit: every other one is late, from `late_next` (0, 1) on."""
    places = [(2 * n + late_next, one) for n, one in enumerate(others)]
    places += [(2 * n + 1 - late_next, one) for n, one in enumerate(late)]
    return [one for _, one in sorted(places, key=itemgetter(0))]
