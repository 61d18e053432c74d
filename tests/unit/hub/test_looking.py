"""What a hub tells of a database that it looks at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast

from mutirao.errors import StoreUnavailable
from mutirao.hub.looking import AWAY, LookedAt, Lookout
from mutirao.hub.protocol import WakeLine
from mutirao.model.jobs.job import Lane, LaneHead
from mutirao.ports import Store

NOW = datetime(2026, 11, 1, tzinfo=UTC)


class Heads:
    """A store that gives answers in turn, or fails."""

    def __init__(self, *answers: list[LaneHead] | Exception) -> None:
        self._answers = [*answers]

    async def lanes(self, queues: object) -> list[LaneHead]:
        """Give the next answer."""
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def head(id: int, due_in: float = -1.0, queue: str = "mail") -> LaneHead:
    """Return the first job of a lane."""
    return LaneHead(Lane(queue, 0, NOW + timedelta(seconds=id), id), due_in)


def lookout(*answers: list[LaneHead] | Exception, every: float = 0.2) -> tuple[Lookout, list[Any]]:
    """Return a lookout, and what it will have told."""
    received: list[Any] = []
    made = Lookout(
        LookedAt("shop", cast(Store, Heads(*answers))),
        every,
        lambda database, line: received.append(line.run_at),
        lambda database, every: received.append(every),
    )
    return made, received


async def test_each_new_job_is_told_once(monkeypatch: Any) -> None:
    """The first of a lane, though it is due later; not that which it was told of just now."""
    clock = iter(range(1_000))
    monkeypatch.setattr("mutirao.hub.looking.monotonic", lambda: 100 + next(clock) * 1e-6)
    [first, later] = head(1), head(2, due_in=60.0)
    made, found = lookout([], [first], [first], [later], [later], [])
    for _ in range(6):
        assert await made._turn() >= 0.2
    assert [each for each in found if each != 0.2] == [first.lane.run_at, later.lane.run_at]


async def test_a_job_that_stays_is_told_again(monkeypatch: Any) -> None:
    """Ever less often, up to two seconds; one that is due later, after that."""
    now = 0.0
    monkeypatch.setattr("mutirao.hub.looking.monotonic", lambda: now)
    for due_in in (-1.0, 10.0):
        made, found = lookout(*[[head(1, due_in)]] * 200, every=0.1)
        moments = []
        now = 0.0
        for n in range(200):
            now = n / 10
            before = len(found)
            await made._turn()
            moments += [now] * sum(isinstance(each, datetime) for each in found[before:])
        gaps = [round(b - a, 1) for a, b in pairwise(moments)]
        assert gaps[0] >= max(0.1, due_in)
        assert max(gaps) <= 2.1 + max(0.0, due_in)


async def test_who_cannot_look_says_so(caplog: Any) -> None:
    """Once; its workers poll until it looks again."""
    away = StoreUnavailable("the server is away")
    made, found = lookout([], away, away, [], [])
    pauses = [await made._turn() for _ in range(5)]
    assert [each for each in found if not isinstance(each, WakeLine)] == [0.2, None, None, 0.2, 0.2]
    assert all(AWAY / 2 <= pauses[n] <= AWAY * 1.5 for n in (1, 2))
    [gone, back] = [record.getMessage() for record in caplog.records]
    assert gone.startswith("cannot look at shop: the server is away")
    assert back == "looking at shop again"
