"""Listens for wake-ups, and decides when a worker is too busy to need notifications.

NOTIFY makes the commits of a whole database queue up (16 clients: 19.8k commits/s without it, 5.4k
with it), so it is worth its cost only for a worker that would otherwise sleep. A worker is busy
while very many jobs come in a second, or more than it wants for a while. That each claim finds a
job does not mean that it is busy: jobs may come one by one to an otherwise idle worker.

A worker that does not listen, and has claimed all due jobs, claims again at once, because others
may have enqueued more meanwhile. If that finds nothing, new jobs come from attempts that end in
this worker, and these wake it: so it waits for them instead.

A notifier that chooses which workers it wakes, such as a hub, is informed when the worker is idle.
While it announces all jobs, the worker polls only for jobs that nothing announces.
"""

import asyncio
from collections.abc import Callable
from enum import Enum, auto

from mutirao.engine.loops import LoopRetry
from mutirao.engine.settings import WorkerSettings
from mutirao.model.jobs.job import Wake
from mutirao.ports import ChoosingNotifier, Notifier

WINDOW_SECONDS = 0.25
# Jobs in a window; at 2,000 a second, claiming again finds new jobs soon enough.
BUSY_JOBS_PER_WINDOW = 500
# A busy worker is not busy any more with fewer: half of them, so that it does not switch all the
# time.
CALM_JOBS_PER_WINDOW = 250
# Seconds between claims while busy. A worker that cannot listen waits longer if the ends of its own
# attempts wake it for the jobs that it finds.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.04
MAX_EMPTY_CLAIMS = 20  # empty claims before the worker listens again, with the shortest pauses


class Look(Enum):
    """Why a busy worker claims."""

    USUAL = auto()  # it has listened, or there were more jobs than it wanted
    WOKEN = auto()  # a wake-up came during a pause
    AT_ONCE = auto()  # after a claim that took all due jobs
    IN_TURN = auto()  # after a pause without a wake-up


class ListenPolicy:
    """Decides when a worker listens, from its jobs and rests. `now` is monotonic, in seconds."""

    def __init__(self, now: float) -> None:
        self._had_time_at = now
        self._window_at = now
        self._jobs = 0
        self._vain = 0
        self._many = False
        self.look = Look.USUAL  # why it claims next
        self._was_woken = False  # for what it has found, since it last looked without a wake-up
        self.hurries = True  # whether a claim that took all due jobs is followed by another at once
        self.pause = SHORTEST_PAUSE  # seconds until it looks again without a wake-up

    def looked(self, found: bool, *, hears: bool = False) -> None:
        """Record whether a claim found something. `hears`: wake-ups reach the worker."""
        if self.look is Look.AT_ONCE:
            self.hurries = found
        elif self.look is Look.WOKEN:
            self._was_woken = self._was_woken or found
        elif self.look is Look.IN_TURN:
            if found:
                self.hurries, self.pause = True, SHORTEST_PAUSE
            elif self._was_woken and not hears:
                self.pause = min(2 * self.pause, LONGEST_PAUSE)
            self._was_woken = False
        self.look = Look.USUAL

    def took(self, jobs: int, now: float) -> None:
        """Record that a claim found jobs."""
        self._end_window(now)
        self._jobs += jobs
        self._many = self._many or self._jobs >= BUSY_JOBS_PER_WINDOW
        self._vain = 0

    def had_time(self, now: float) -> None:
        """Record that the worker slept, or that a claim found less than it wanted."""
        self._had_time_at = now

    def busy(self, now: float) -> bool:
        """Return whether many jobs come, or for a while more than it wanted."""
        self._end_window(now)
        return self._many or now - self._had_time_at > WINDOW_SECONDS

    def _end_window(self, now: float) -> None:
        """Begin a new window if the last one is over: as many jobs must have come in it."""
        passed = now - self._window_at
        if passed > WINDOW_SECONDS:
            lasted = passed <= 2 * WINDOW_SECONDS  # otherwise none came in the one after it
            self._many = self._many and lasted and self._jobs >= CALM_JOBS_PER_WINDOW
            self._window_at, self._jobs = now, 0

    def record_empty_claim(self) -> bool:
        """Record an empty claim; return whether the worker should listen instead."""
        self._vain += round(self.pause / SHORTEST_PAUSE)
        if self._vain < MAX_EMPTY_CLAIMS:
            return False
        self._vain, self._jobs, self._many = 0, 0, False
        return True


SELDOM = 15  # while a notifier announces all jobs, 14 of so many polls are left out


class Hearing:
    """Listens for the wake-ups of one worker.

    `hears`: whether wake-ups reach it at the moment; None: it only polls.
    """

    def __init__(self, notifier: Notifier | None, settings: WorkerSettings) -> None:
        self._notifier, self._settings = notifier, settings
        self._chooser = notifier if isinstance(notifier, ChoosingNotifier) else None
        self.hears: bool | None = None if notifier is None else False

    @property
    def complete(self) -> bool:
        """Whether the notifier announces all jobs, those of open transactions, too."""
        return self._chooser is not None and self._chooser.complete

    @property
    def poll(self) -> float:
        """The seconds after which an idle worker reads the heads of the lanes again."""
        return self._settings.poll * (SELDOM if self.complete else 1)

    def attend(self, idle: bool) -> None:
        """Inform the notifier whether the worker wants wake-ups."""
        if self._chooser is not None:
            self._chooser.attend(idle)

    async def run(self, wake: Callable[[Wake], None], deaf: Callable[[bool], None]) -> None:
        """Pass wake-ups on, forever; listen again after a failure.

        `deaf` is called at a failure, with True if the worker has polled seldom until then.
        """
        trouble = self._trouble()
        while self._notifier is not None:
            seldom = False
            try:
                async for each in self._notifier.listen():
                    trouble.over()
                    self.hears, seldom = True, self.poll > self._settings.poll
                    wake(each)
            except Exception as error:  # noqa: BLE001 (raised if it does not pass)
                self.hears = False
                wait = trouble.met(error)
                deaf(seldom)
                await asyncio.sleep(wait)

    def _trouble(self) -> LoopRetry:
        what, longest = "cannot listen, polling goes on", self._settings.longest_wait
        if self._chooser is None:
            return LoopRetry(what, "listening again", longest)
        return LoopRetry(what, "listening again", longest, who="hub", once="outage")
