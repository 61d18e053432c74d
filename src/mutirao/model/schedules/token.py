"""The token of a schedule that a broker keeps, and the rules of its steps. Pure.

A schedule by broker alone is one message, its token, in a queue of its own. Each step is the same
token with a higher serial number: a worker that sees two of them keeps the higher one. So a step
that was written twice, or whose predecessor comes back after a crash, starts no second loop.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from types import UnionType
from typing import Self
from uuid import UUID, uuid4, uuid5

from mutirao.errors import InvalidSchedule
from mutirao.model.brokers.message import Header, MessageId
from mutirao.model.schedules.cron import next_tick, ticks_until
from mutirao.model.schedules.schedule import CatchUp, Overlap, Schedule
from mutirao.model.schedules.schedule_rules import fingerprint, job_of

ENDED = "it has no more ticks"
LATEST = 32_503_680_000.0  # the year 3000, in seconds: a later tick is not Mutirão's
_KINDS: Mapping[type | UnionType, Sequence[str]] = {
    str: ("timing",),
    int: ("serial", "phase", "attempt", "lost"),
    str | None: ("holder", "stopped", "asks"),
    Mapping: ("notes",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The state of a schedule that a broker keeps.

    Parameters:
        loop: distinguishes this loop from one that was begun after the broker had lost it: a UUID.
        serial: grows with each step.
        phase: how many phases have ended.
        tick, due: when the phase ticks, and when it is due: jitter or a retry make that later.
            Seconds since 1970.
        attempt: the number of the attempt at this phase, from 1.
        lost: how many workers in a row vanished while they ran it.
        holder: the worker that runs it; None while it waits.
        stopped: why it has stopped; None while it continues.
        notes: headers that an attempt has left for the next one.
        timing: the fingerprint of the schedule by which it was planned.
        starts: an order to continue, for a token that has stopped; it is no step itself.
        asks: a question to the worker that holds the token, with the name for the answer; no step,
            either.
    """

    loop: str
    tick: float
    due: float
    timing: str = ""
    serial: int = 0
    phase: int = 0
    attempt: int = 1
    lost: int = 0
    holder: str | None = None
    stopped: str | None = None
    notes: Mapping[str, Header] = field(default_factory=dict)
    starts: bool = False
    asks: str | None = None

    @classmethod
    def of(cls, body: bytes) -> Self:
        """Return the token in a message.

        Raises:
            ValueError: it is no token.
        """
        try:
            token = cls(**json.loads(body))
            UUID(token.loop)
            datetime.fromtimestamp(token.due, UTC), datetime.fromtimestamp(token.tick, UTC)
            token._check()
        except (TypeError, AttributeError, OverflowError, OSError, RecursionError) as error:
            raise ValueError(f"it is no token of a schedule: {error}") from error
        return token

    def _check(self) -> None:
        """Raise TypeError if a value has another type."""
        for kind, names in _KINDS.items():
            for name in names:
                if not isinstance(getattr(self, name), kind):
                    raise TypeError(f"its {name} is {getattr(self, name)!r:.100}")
        if not 0 <= self.tick < LATEST or not 0 <= self.due < LATEST:
            raise TypeError(f"its moments are {self.tick!r:.100} and {self.due!r:.100}")
        if not all(isinstance(each, str | int | float) for each in self.notes.values()):
            raise TypeError("a note of it is neither text nor number")

    def body(self) -> bytes:
        """Return it as the body of a message."""
        return json.dumps(asdict(self)).encode()

    @property
    def id(self) -> MessageId:
        """The id of the phase's job, the same at each of its attempts."""
        return MessageId(uuid5(UUID(self.loop), str(self.phase)).int)

    @property
    def ticks_at(self) -> datetime:
        """When its phase ticks."""
        return datetime.fromtimestamp(self.tick, UTC)


def check_kept(schedule: Schedule) -> None:
    """Raise InvalidSchedule if a schedule has an option that only a database can keep."""
    unfit = {
        "catch_up='all'": schedule.catch_up is CatchUp.ALL,
        "pause_after": schedule.pause_after is not None,
    }
    if found := [name for name, given in unfit.items() if given]:
        raise InvalidSchedule(
            f"schedule {schedule.name!r} has {', '.join(found)}, and its task's queue is by broker"
            ' alone, which cannot keep that; leave it out, or give the queue mode="carried"'
        )


def seeded(schedule: Schedule, now: datetime) -> Token:
    """Return the first token of a schedule; any other token of it is higher."""
    blank = Token(loop=uuid4().hex, tick=now.timestamp(), due=now.timestamp())
    return _planned(blank, schedule, next_tick(schedule, now), now)


def replanned(token: Token, schedule: Schedule, now: datetime) -> Token:
    """Return a token for a changed schedule: not later than it was planned.

    A token that has run out of ticks may have new ones; one that a phase has stopped stays so.
    """
    if token.timing == fingerprint(schedule) or token.stopped not in (None, ENDED):
        return token
    planned = _planned(token, schedule, next_tick(schedule, now), now)
    if token.stopped is None and planned.stopped is None and planned.due > token.due:
        return replace(token, timing=planned.timing)
    return planned


def begun(token: Token, holder: str) -> Token:
    """Return the token of a phase that is about to run; the previous worker may have vanished."""
    lost = token.lost + (token.holder is not None)
    return replace(token, holder=holder, lost=lost)


def succeeded(token: Token, schedule: Schedule, now: datetime) -> Token:
    """Return the token of the phase after one that has ended."""
    blank = replace(token, phase=token.phase + 1, holder=None, attempt=1, lost=0, notes={})
    if schedule.max_runs is not None and blank.phase >= schedule.max_runs:
        return stopped(blank, ENDED)
    return _planned(blank, schedule, _next(schedule, token.ticks_at, now), now)


def again(
    token: Token, attempt: int, lost: int, notes: Mapping[str, Header], due: datetime
) -> Token:
    """Return the token of a phase that is to run again."""
    moment, kept = due.timestamp(), dict(notes)
    return replace(token, holder=None, attempt=attempt, lost=lost, notes=kept, due=moment)


def stopped(token: Token, reason: str) -> Token:
    """Return a token that has stopped."""
    return replace(token, holder=None, stopped=reason)


def started(token: Token, schedule: Schedule, now: datetime) -> Token:
    """Return a stopped token that continues, with a new loop: phases count from the first again."""
    return replace(seeded(schedule, now), serial=token.serial)


def _next(schedule: Schedule, tick: datetime, now: datetime) -> datetime | None:
    """Return the tick after a phase: on time however long it took, or counted from its end."""
    if schedule.overlap is Overlap.AFTER:
        return next_tick(schedule, now)
    found = next_tick(schedule, tick)
    if found is None or found > now:
        return found
    last = ticks_until(schedule, found, now, 1)[-1]
    return last if schedule.catch_up is CatchUp.LAST else next_tick(schedule, last)


def _planned(token: Token, schedule: Schedule, tick: datetime | None, now: datetime) -> Token:
    timing = fingerprint(schedule)
    if tick is None or (schedule.until is not None and tick > schedule.until):
        return stopped(replace(token, timing=timing), ENDED)
    due = job_of(schedule, tick, now).run_at or tick
    moments = tick.timestamp(), due.timestamp()
    return replace(token, stopped=None, tick=moments[0], due=moments[1], timing=timing)
