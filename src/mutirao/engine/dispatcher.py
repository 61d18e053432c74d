"""Starts claimed jobs while slots are free, and says how many more the worker could use."""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Iterable
from functools import partial
from math import inf
from time import monotonic

from mutirao.engine import outcomes
from mutirao.engine.completer import Completer, Finished
from mutirao.engine.executor import Executor
from mutirao.engine.pace import STALL, Pace
from mutirao.engine.running import Begin, Running
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.threads import Threads
from mutirao.errors import AttemptTimeout
from mutirao.job import Claim, Outcome, OutcomeKind, Wake

log = logging.getLogger("mutirao")

BURST = 100  # starts in a row before other loops get their turn
PATIENCE = 5.0  # seconds a cancelled coroutine has to end before it counts as stuck
MOST_UNSETTLED = 4  # batches; beyond that the database is behind, and claiming pauses
EAGER = sys.version_info >= (3, 12)


class Dispatcher:
    """The slots of one worker, the jobs that wait for one, and those that have one."""

    def __init__(
        self,
        settings: WorkerSettings,
        executor: Executor,
        completer: Completer,
        threads: Threads,
        begin: Begin,
    ) -> None:
        self._settings, self._executor, self._completer = settings, executor, completer
        self._threads, self._begin = threads, begin
        self._buffer: deque[Claim] = deque()
        self._running: set[Running] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_cancel: set[tuple[int, int]] = set()
        self._abandoned = 0
        self._pumping = False
        self._closed = False
        self._pace = Pace(settings.prefetch, 2 * settings.batch)
        self._moved_at = monotonic()  # when a job last came or started
        self.changed = asyncio.Event()  # something ended, or there is room

    @property
    def stuck(self) -> int:
        """Slots lost to handlers that nobody waits for any more."""
        return self._threads.stuck + self._abandoned

    def wanted(self) -> int:
        """Return how many jobs to claim now; 0 while the buffer is full enough."""
        batch = self._settings.batch
        slots = max(0, self._settings.concurrency - self.stuck)
        target = max(0, slots - len(self._running)) + self._pace.ahead(slots)
        if self._completer.unsettled > MOST_UNSETTLED * batch:
            return 0
        short = target - len(self._buffer)
        return min(batch, short) if short >= max(1, min(batch, target) // 2) else 0

    def feed(self, claims: Iterable[Claim]) -> None:
        """Take claimed jobs and start as many as there are slots for."""
        self._buffer.extend(claims)
        self._moved_at = monotonic()
        self.pump()

    def pump(self) -> None:
        """Start waiting jobs; a long row of them is cut, to let other loops have their turn."""
        if self._pumping:
            return
        self._pumping = True
        try:
            if self._start_some():
                asyncio.get_running_loop().call_soon(self.pump)
        finally:
            self._pumping = False
        self.look_again()

    def _start_some(self) -> bool:
        """Start jobs until slots or jobs run out, or a burst is over; tell whether it was that."""
        for _ in range(BURST):
            if self._full() or (claim := self._next()) is None:
                return False
            self._start(claim)
        return True

    def look_again(self) -> None:
        """Let the producer see whether there is room for more jobs."""
        if self.wanted():
            self.changed.set()

    def holds(self) -> set[tuple[int, int]]:
        """Return (id, run) of every job this worker knows of: waiting, running or unsettled."""
        claims = [*self._buffer, *(running.claim for running in self._running)]
        return {(claim.id, claim.run) for claim in claims} | self.unsettled()

    def unsettled(self) -> set[tuple[int, int]]:
        """Return (id, run) of every job that has ended and whose outcome is not written yet."""
        return self._completer.pending()

    def _next(self) -> Claim | None:
        # Another thread may take the last one between a look and the taking.
        try:
            return self._buffer.popleft()
        except IndexError:
            return None

    def drop_unstarted(self) -> list[tuple[int, int]]:
        """Forget the jobs that have not started, and return them; from any thread."""
        dropped = []
        while (claim := self._next()) is not None:
            dropped.append((claim.id, claim.run))
        return dropped

    def patience(self) -> float:
        """Return the seconds until the jobs that wait for a slot have waited too long."""
        return self._moved_at + STALL - monotonic() if self._buffer else inf

    def drop_stalled(self) -> list[tuple[int, int]]:
        """Forget the jobs that have waited too long, and return them: others may be free."""
        if self.patience() > 0:
            return []
        self._pace.takes_at_least(monotonic() - self._moved_at)
        return self.drop_unstarted()

    def cancel(self, jobs: Iterable[tuple[int, int]]) -> None:
        """Cancel all of these jobs (id, run) that run; the others when they are about to."""
        self._to_cancel = set(jobs)
        for running in list(self._running):
            if (running.claim.id, running.claim.run) in self._to_cancel:
                self._interrupt(running, outcomes.CANCELLED)

    def interrupt_all(self, outcome: Outcome) -> None:
        """End everything that runs, with this outcome."""
        for running in list(self._running):
            self._interrupt(running, outcome)

    def close(self) -> None:
        """Start no more jobs."""
        self._closed = True

    async def idle(self) -> None:
        """Wait until nothing runs."""
        while self._running:
            self.changed.clear()
            await self.changed.wait()

    def _full(self) -> bool:
        return self._closed or len(self._running) + self.stuck >= self._settings.concurrency

    def _start(self, claim: Claim) -> None:
        if self._to_cancel and (claim.id, claim.run) in self._to_cancel:
            claim = claim._replace(cancel=True)
        running = Running(claim, self._begin)
        self._moved_at = running.started
        self._running.add(running)
        loop = asyncio.get_running_loop()
        timeout = self._executor.timeout(claim)
        if timeout is not None:
            running.arm = partial(self._arm, running, timeout)
            running.arm(self._executor.lead(claim))
        # An eager task runs a handler that never waits without a detour through the event loop.
        task = (
            asyncio.Task(self._live(running), loop=loop, eager_start=True)  # type: ignore[call-arg]
            if EAGER
            else loop.create_task(self._live(running))
        )
        if not task.done():
            running.task = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _arm(self, running: Running, timeout: float, lead: float = 0.0) -> None:
        if running.timer is not None:
            running.timer.cancel()
        loop = asyncio.get_running_loop()
        running.timer = loop.call_later(timeout + lead, self._expire, running, timeout)

    async def _live(self, running: Running) -> None:
        outcome = await self._executor.attempt(running)
        if running.timer is not None:
            running.timer.cancel()
        if running in self._running:
            self._end(running, outcome)
        else:
            self._abandoned -= 1
            self._say_late(running, outcome)
        self._after()

    def _end(self, running: Running, outcome: Outcome) -> None:
        self._running.discard(running)
        finished = monotonic()
        self._pace.took(finished - running.started)
        claim = running.claim
        linked = self._executor.linked(claim)
        if running.settled or outcome.kind is OutcomeKind.LOST:
            steps = [Wake()] if running.settled and linked else []
            self._completer.tell_woken([*steps, *running.woken])
            return
        follow_up = self._executor.follow_up(claim, outcome)
        self._completer.add(Finished(claim, outcome, running.started, finished, follow_up, linked))

    def _after(self) -> None:
        if self._pumping:
            return
        if self._buffer:
            self.pump()
        else:
            self.changed.set()

    def _expire(self, running: Running, timeout: float) -> None:
        error = AttemptTimeout(f"took longer than its timeout of {timeout:g} s")
        claim = running.claim
        if self._executor.runs_in_thread(claim):
            log.error(
                "job %s (%s) is stuck: a thread cannot be ended; its slot is lost until it returns",
                *(claim.id, claim.task),
                extra={"job": claim.id, "task": claim.task, "run": claim.run},
            )
        self._interrupt(running, self._executor.judge(claim, error))

    def _interrupt(self, running: Running, outcome: Outcome) -> None:
        running.interrupt(outcome)
        loop = asyncio.get_running_loop()
        loop.call_later(PATIENCE, self._abandon, running)

    def _abandon(self, running: Running) -> None:
        """Settle an attempt whose coroutine ignores that it was cancelled."""
        if running not in self._running or running.interruption is None:
            return
        log.error("job %s (%s) is stuck", running.claim.id, running.claim.task)
        self._abandoned += 1
        self._end(running, running.interruption)
        self._after()

    def _say_late(self, running: Running, outcome: Outcome) -> None:
        log.warning(
            "job %s (%s) returned after it was given up; its outcome %s is dropped",
            *(running.claim.id, running.claim.task, outcome.kind),
        )
