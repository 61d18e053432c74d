"""Shares the slots of one process among its databases, and sizes the prefetch of each.

A prefetch is about 100 ms of work, so that short jobs do not wait for the round trip of a claim and
long ones are not held back while another worker is free.

A worker of one database uses all slots. If a process serves several databases, a slot that becomes
free goes to the database with the fewest running jobs among those with claimed jobs; among equal
ones, to the one that has waited longest. So that each gets a slot in time, a database below its
share may hold a claimed job while all slots are taken.
"""

import asyncio
from math import inf
from typing import Protocol

from mutirao.engine.calls.threads import Threads
from mutirao.ports.measurements import WorkerLoad

NEWEST_WEIGHT = 0.05  # weight of the newest duration in the running mean
STALL_SECONDS = 0.5  # seconds without a start after which waiting jobs are released
MIN_DURATION = 1e-6  # seconds; the clock may measure 0 for a handler that does nothing


class Pace:
    """The running mean of durations, in seconds. `most` is the maximum that it recommends."""

    def __init__(self, prefetch: float, most: int) -> None:
        self._prefetch, self._most = prefetch, most
        self._mean: float | None = None

    @property
    def known(self) -> bool:
        """Whether any duration is known."""
        return self._mean is not None

    def took(self, duration: float) -> None:
        """Record how long a handler took."""
        mean = duration if self._mean is None else self._mean
        self._mean = mean + (duration - mean) * NEWEST_WEIGHT

    def takes_at_least(self, duration: float) -> None:
        """Record that handlers which have not ended yet have taken this long already."""
        self._mean = max(self._mean or 0.0, duration)

    def ahead(self, slots: int) -> int:
        """Return how many jobs to hold ready for `slots` slots."""
        if self._mean is None:
            return slots
        return min(int(self._prefetch * slots / max(self._mean, MIN_DURATION)), self._most)


MAX_STARTS_IN_A_ROW = 100  # starts in a row before other tasks of the event loop run
HOLD_SECONDS = 10 * STALL_SECONDS  # how long a job waits while another database has its slot


class Sharer(Protocol):
    """A user of the shared slots: the dispatcher of one database."""

    last_start: int  # the number of its last start, counted over all dispatchers

    def running(self) -> int:
        """Return the number of its running attempts."""
        ...

    def may_start(self) -> bool:
        """Return whether it has a job that may start."""
        ...

    def start_next(self) -> bool:
        """Start its next job if one may start; return whether it did."""
        ...

    def notify_if_room(self) -> None:
        """Notify its producer if there is room for more jobs."""
        ...

    def expect_none(self) -> None:
        """Leave the slots to others, if it has no job."""
        ...

    def load(self) -> tuple[int, int]:
        """Return how many jobs wait for a slot, and how many are unsettled. From any thread."""
        ...

    def holds_suspect(self) -> bool:
        """Return whether it has a job with which workers were lost before."""
        ...

    def blocked_until(self) -> float:
        """Return when all its coroutines are past their timeouts, in monotonic seconds."""
        ...


class Slots:
    """The slots. `taken`: by running attempts; `abandoned`: by coroutines that were given up.

    `threads`: those of plain functions. An attempt that only waits may lend its slot to another
    one: so at most twice as many attempts run as there are slots.

    All but `blocked_until` and the counts are called in the event loop.
    """

    def __init__(self, number: int, threads: Threads) -> None:
        self._number, self.threads = number, threads
        self._members: list[Sharer] = []
        self._active: set[Sharer] = set()  # those that have jobs here, or may have claimed some
        self._starts = 0
        self.pumping = False  # jobs are being started; free slots are counted afterwards
        self.taken = 0
        self.abandoned = 0
        self._lent = 0  # attempts that run without a slot

    def enter(self, member: Sharer) -> None:
        """Add a dispatcher, which gets a share from now on."""
        self._members.append(member)

    def leave(self, member: Sharer) -> None:
        """Remove a dispatcher whose worker has ended."""
        if member in self._members:
            self._members.remove(member)
        self._active.discard(member)

    @property
    def alone(self) -> bool:
        """True if there is only one dispatcher."""
        return len(self._members) < 2

    @property
    def stuck(self) -> int:
        """The number of slots lost to handlers that were given up."""
        return self.threads.stuck + self.abandoned

    def load(self, beat_age: float | None) -> WorkerLoad:
        """Return the current load; `beat_age`: since the last heartbeat. From any thread."""
        members = [each.load() for each in list(self._members)]
        waiting, unsettled = sum(each[0] for each in members), sum(each[1] for each in members)
        running = self.taken + self._lent
        return WorkerLoad(self._number, running, waiting, unsettled, self.stuck, beat_age)

    def all_stuck(self) -> bool:
        """Return whether every slot is lost."""
        return self.stuck >= self._number

    def usable(self) -> int:
        """Return the number of slots that are not lost."""
        return max(0, self._number - self.stuck)

    def free(self) -> int:
        """Return the number of free slots."""
        return max(0, self._number - self.stuck - self.taken)

    def full(self) -> bool:
        """Return whether no slot is free."""
        return self.taken + self.stuck >= self._number

    def lend(self) -> bool:
        """Free the slot of an attempt that only waits; return False if too many are lent."""
        if self._lent >= self._number:
            return False
        self._lent += 1
        self.taken -= 1
        return True

    def give_back(self, lent: bool) -> None:
        """Free the slot of an attempt that has ended, unless it was lent before."""
        if lent:
            self._lent -= 1
        else:
            self.taken -= 1

    def share(self, member: Sharer) -> int:
        """Return how many slots a dispatcher may count on, at least one unless all are lost."""
        usable = self.usable()
        if self.alone:
            return usable
        others = len(self._active) - (member in self._active)
        return max(min(1, usable), usable // (others + 1))

    def expect(self, member: Sharer) -> None:
        """Count a dispatcher as one that has jobs: it claims."""
        self._active.add(member)

    def note_idle(self, member: Sharer) -> None:
        """Record that a dispatcher has no jobs any more."""
        self._active.discard(member)

    def patience(self, member: Sharer) -> float:
        """Return the seconds that claimed jobs may wait for a slot before they are given back."""
        satisfied = self.alone or member.running() >= self.share(member)
        return STALL_SECONDS if satisfied else HOLD_SECONDS

    def has_suspect(self) -> bool:
        """Return whether this process has a job with which workers were lost."""
        return any(each.holds_suspect() for each in self._members)

    def blocked_until(self) -> float:
        """Return when every running coroutine is past its timeout, in monotonic seconds.

        Returns inf if one has no timeout. May be called from any thread.
        """
        return max((each.blocked_until() for each in list(self._members)), default=0.0)

    def pump_all(self) -> None:
        """Start waiting jobs of any database: a lost slot is free again."""
        for each in list(self._members):
            self.pump(each)

    def pump(self, member: Sharer) -> None:
        """Start waiting jobs, in bursts, so that other tasks of the event loop run in between.

        `member`: the dispatcher for which something has changed.
        """
        if self.pumping:
            return
        self.pumping = True
        started: set[Sharer] = {member}
        try:
            more = self._start_its(member) if self.alone else self._start_in_turn(started)
        finally:
            self.pumping = False
        if more:
            asyncio.get_running_loop().call_soon(self.pump, member)
        if self.alone:
            member.notify_if_room()
        else:
            self._notify(started)

    def _start_its(self, member: Sharer) -> bool:
        """Start jobs until slots or jobs run out, or a burst is full; return whether it is."""
        left = MAX_STARTS_IN_A_ROW
        while left and not self.full() and member.start_next():
            left -= 1
        return not left

    def _start_in_turn(self, started: set[Sharer]) -> bool:
        """Start the jobs of all databases in turn; return whether a burst is full."""
        for _ in range(MAX_STARTS_IN_A_ROW):
            if self.full() or (member := self._next()) is None:
                return False
            self._starts += 1
            member.last_start = self._starts
            started.add(member)
            member.start_next()
        return True

    def _next(self) -> Sharer | None:
        found, least = None, (inf, inf)
        for each in self._active:
            order = (each.running(), each.last_start)
            if order < least and each.may_start():
                found, least = each, order
        return found

    def _notify(self, started: set[Sharer]) -> None:
        """Notify those that may claim more; if a slot is free, all that have jobs here."""
        for each in started:
            each.expect_none()
        for each in started if self.full() else started | self._active:
            each.notify_if_room()
