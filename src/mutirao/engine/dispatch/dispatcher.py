"""Starts claimed jobs while slots are free, and counts how many more to claim."""

import asyncio
from collections.abc import Collection, Iterable
from contextvars import Context, copy_context
from functools import partial
from math import inf
from time import monotonic

from mutirao.engine.calls import outcomes
from mutirao.engine.calls.attempt import Begin, Finished, Running, Settler, StallWatch, started_task
from mutirao.engine.dispatch.executor import LOST_RUNS_OF_SUSPECT, Executor
from mutirao.engine.dispatch.noted_starts import NoteStart, after_note
from mutirao.engine.dispatch.slots import Pace, Slots
from mutirao.engine.dispatch.thread_calls import Attempt, ThreadAttempts
from mutirao.engine.dispatch.waiting_claims import WaitingClaims
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import AttemptStalled, AttemptTimeout
from mutirao.log import log
from mutirao.model.jobs.job import Claim, OutcomeKind, Wake
from mutirao.model.jobs.outcome import Outcome

CANCEL_TIMEOUT = 5.0  # seconds within which a cancelled coroutine must end, or it counts as stuck
HURRIED_CANCEL_TIMEOUT = 1.0  # the same after a second signal
MAX_UNSETTLED_BATCHES = 4  # batches; beyond that the database is behind, and claiming pauses


class Dispatcher:
    """The jobs of one database that wait for a slot or have one."""

    def __init__(
        self,
        settings: WorkerSettings,
        executor: Executor,
        completer: Settler,
        slots: Slots,
        begin: Begin,
    ) -> None:
        self._settings, self._executor, self._completer = settings, executor, completer
        self._slots, self._begin = slots, begin
        self._buffer = WaitingClaims()
        self._running: set[Running] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_cancel: set[tuple[int, int]] = set()
        self._lent = 0  # running attempts that have left their slots to others
        self._lives_until = inf
        self._context = copy_context()  # the context of the worker's start, for every attempt
        self._starts_soon = False  # whether one start is planned for several ended attempts
        self._calls = ThreadAttempts(executor, slots.threads, self)
        self._closed = False
        self.note_start: NoteStart | None = None  # of jobs that were lost before
        self.last_start, self.suspect_from = 0, LOST_RUNS_OF_SUSPECT
        self._pace = Pace(settings.prefetch, 2 * settings.batch)
        self._moved_at = monotonic()  # when a job last came or started
        self.changed = asyncio.Event()  # something ended, or there is room
        self.patience_with_cancelled = CANCEL_TIMEOUT
        slots.enter(self)

    def running(self) -> int:
        """Return the number of its running attempts that have slots."""
        return len(self._running) - self._lent

    def has_jobs(self) -> bool:
        """Return whether it knows of any: waiting, running or unsettled. From any thread."""
        return bool(self._buffer or self._running or self._completer.unsettled)

    def may_start(self) -> bool:
        """Return whether it has a job to start, and may."""
        return bool(self._buffer) and self._may_start()

    def _may_start(self) -> bool:
        return not self._closed and monotonic() <= self._lives_until

    def blocked_until(self) -> float:
        """Return when, in monotonic seconds, all of its coroutines are past their timeouts.

        Returns inf if one has none. May be called from any thread.
        """
        return max((self._over_at(each) for each in list(self._running)), default=0.0)

    def _over_at(self, running: Running) -> float:
        options = self._executor.options[running.claim.task]
        if not options.in_loop:
            return 0.0
        timeout, watch = options.timeout_of(running.claim), running.watch
        over_at = inf if timeout is None else running.started + timeout
        return over_at if watch is None else min(over_at, watch.due)

    def wanted(self) -> int:
        """Return how many jobs to claim now; 0 while the buffer is full enough."""
        batch, share = self._settings.batch, self._slots.share(self)
        target = min(self._slots.free(), share) + self._pace.ahead(share)
        if not target and not self._slots.alone and self.running() < share:
            target = 1  # for the next slot that a job of another database frees
        if self._completer.unsettled > MAX_UNSETTLED_BATCHES * batch:
            return 0
        short = target - len(self._buffer)
        return min(batch, short) if short >= max(1, min(batch, target) // 2) else 0

    def most(self) -> int:
        """Return how many jobs it may hold: running, and ready if their duration is known."""
        share = self._slots.share(self)
        return share + (self._pace.ahead(share) if self._pace.known else 0)

    def ahead_of_slot(self) -> int:
        """Return how many jobs it may hold ready for each slot; 0 if running jobs leave no time."""
        share = self._slots.share(self)
        return self._pace.ahead(share) // max(1, share)

    def feed(self, claims: Iterable[Claim]) -> None:
        """Take claimed jobs, and start as many as there are free slots."""
        self._buffer.extend(claims)
        self._slots.expect(self)
        self._moved_at = monotonic()
        self.pump()

    def expect(self) -> None:
        """Take a share of the slots: jobs are being claimed."""
        self._slots.expect(self)

    def expect_none(self) -> None:
        """Leave the slots to others if it has no job: the claim found none."""
        if not self._running and not self._buffer:
            self._slots.note_idle(self)

    def pump(self) -> None:
        """Start waiting jobs, as many as there are free slots."""
        self._slots.pump(self)

    def set_lifetime(self, moment: float) -> None:
        """Start nothing after this moment, in monotonic seconds, until a later one is given.

        After it, other workers may have rescued the jobs that this worker has claimed.
        """
        self._lives_until = moment
        if self._buffer:
            self.pump()

    def start_next(self) -> bool:
        """Start the next job, if there is one and it may start; return whether it did."""
        if not self._may_start() or (claim := self._buffer.next()) is None:
            return False
        self._start(claim)
        return True

    def notify_if_room(self) -> None:
        """Notify the producer if there is room for more jobs."""
        if self.wanted():
            self.changed.set()

    def load(self) -> tuple[int, int]:
        """Return how many jobs wait for a slot, and how many are unsettled. From any thread."""
        return len(self._buffer), self._completer.unsettled

    def holds(self) -> set[tuple[int, int]]:
        """Return (id, run) of every job that this worker knows: waiting, running or unsettled."""
        return {(claim.id, claim.run) for claim in self._claims()} | self.unsettled()

    def unsettled(self) -> set[tuple[int, int]]:
        """Return (id, run) of every job that has ended and whose outcome is not written yet."""
        return self._completer.pending()

    def drop_unstarted(self) -> list[tuple[int, int]]:
        """Forget the jobs that have not started, and return them; callable from any thread."""
        return self._buffer.drop()

    def patience(self) -> float:
        """Return the seconds until the jobs that wait for a slot have waited too long."""
        if not self._buffer:
            return inf
        return self._moved_at + self._slots.patience(self) - monotonic()

    def drop_stalled(self) -> list[tuple[int, int]]:
        """Forget and return the jobs that have waited too long: other workers may be free."""
        if self.patience() > 0:
            return []
        self._pace.takes_at_least(monotonic() - self._moved_at)
        return self.drop_unstarted()

    def cancel(self, jobs: Iterable[tuple[int, int]]) -> None:
        """Cancel these jobs (id, run): running ones now, waiting ones when they start."""
        self._to_cancel = set(jobs)
        self._calls.collect()
        for running in list(self._running):
            if (running.claim.id, running.claim.run) in self._to_cancel:
                self._interrupt(running, outcomes.CANCELLED)

    def lose(self, jobs: Collection[tuple[int, int]]) -> None:
        """Abandon those of these jobs (id, run) that it has: others may have them now."""
        self._buffer.lose(jobs)
        self._calls.collect()
        for running in list(self._running):
            if (running.claim.id, running.claim.run) in jobs:
                self._interrupt(running, outcomes.LOST)

    def interrupt_all(self, outcome: Outcome) -> list[tuple[int, int]]:
        """Interrupt all running attempts with this outcome; return (id, run) of each."""
        self._calls.collect()
        running = list(self._running)
        for each in running:
            self._interrupt(each, outcome)
        return [(each.claim.id, each.claim.run) for each in running]

    def has_suspect(self) -> bool:
        """Return whether this process runs or holds a job with which workers were lost before."""
        return self._slots.has_suspect()

    def holds_suspect(self) -> bool:
        """Return whether this database has such a job."""
        return any(claim.lost >= self.suspect_from for claim in self._claims())

    def _claims(self) -> list[Claim]:
        """Return the jobs that wait or run."""
        return [*self._buffer.known(), *(running.claim for running in self._running)]

    def leave(self) -> None:
        """Leave the slots to others, after all attempts have ended."""
        self._slots.leave(self)

    def close(self) -> None:
        """Stop starting jobs; running handlers that ask learn that they shall end."""
        self._closed = True
        self._calls.collect()
        for running in self._running:
            running.stopping = True

    async def idle(self) -> None:
        """Wait until no attempt runs."""
        while self._running:
            self.changed.clear()
            await self.changed.wait()

    def take_over(self, before: Running) -> tuple[Running, Context] | None:
        """Take the next job for a thread, in place of an attempt that has ended; or None.

        From any thread. Only jobs whose call needs no step in the event loop before are taken.
        """
        if before.lent or not self._slots.alone or not self._may_start():
            return None
        claim = self._buffer.take_if(self._is_mere_call)
        return None if claim is None else (self._made(claim), self._context.copy())

    def _is_mere_call(self, claim: Claim) -> bool:
        try:
            options = self._executor.options[claim.task]
            return options.is_call and not claim.lost and options.stall_timeout is None
        except Exception:  # noqa: BLE001 (`_start` meets it again, and judges it)
            return False

    def taken_over(self, running: Running) -> None:
        """Process the start of a job that a thread has begun."""
        claim = running.claim
        self._buffer.note(claim)
        self._hold(running)
        timeout = self._executor.options[claim.task].timeout_of(claim)
        if timeout is not None:
            running.arm = partial(self._arm, running, timeout)
            running.arm(-running.started_ago())
        running.stopping = self._closed
        if self._to_cancel and not claim.cancel and (claim.id, claim.run) in self._to_cancel:
            self._interrupt(running, outcomes.CANCELLED)

    def _made(self, claim: Claim) -> Running:
        if self._to_cancel and (claim.id, claim.run) in self._to_cancel:
            claim = claim._replace(cancel=True)
        return Running(claim, self._begin, self._lend)

    def _hold(self, running: Running) -> None:
        self._moved_at = max(self._moved_at, running.started)
        self._running.add(running)
        self._slots.taken += 1

    def _start(self, claim: Claim) -> None:
        running = self._made(claim)
        self._hold(running)
        try:
            self._launch(running)
        except Exception as error:  # noqa: BLE001 (a row can end only its own attempt)
            self._leave(running, self._executor.judge(claim, error))

    def _launch(self, running: Running) -> None:
        claim = running.claim
        options = self._executor.options[claim.task]
        timeout, stall = options.timeout_of(claim), options.stall_timeout
        if timeout is not None:
            running.arm = partial(self._arm, running, timeout)
            running.arm(options.lead)
        if stall is not None:
            stalled = partial(self._stalled, running, stall)
            running.watch = StallWatch(stall, stalled, options.lead)
        # Each attempt has its own context: it must not see what the last handler has set.
        context = self._context.copy()
        if claim.lost and self.note_start is not None:
            noted = after_note(self.note_start, self._executor.attempt)
            self.follow(running, noted, context)
        elif options.is_call:
            self._calls.start(running, context)
        else:
            self.follow(running, self._executor.attempt, context)

    def follow(self, running: Running, attempt: Attempt, context: Context) -> None:
        """Run an attempt in a task of the event loop, unless it ends at once."""
        task = started_task(self._live(running, attempt), asyncio.get_running_loop(), context)
        if not task.done():
            running.task = task
            self._tasks.add(task)
            task.add_done_callback(partial(self._over, running))

    def _arm(self, running: Running, timeout: float, lead: float = 0.0) -> None:
        if running.timer is not None:
            running.timer.cancel()
        loop = asyncio.get_running_loop()
        running.timer = loop.call_later(timeout + lead, self._expire, running, timeout)

    async def _live(self, running: Running, attempt: Attempt) -> None:
        self._leave(running, await attempt(running))

    def _over(self, running: Running, task: asyncio.Task[None]) -> None:
        """Free the slot of a task that never began, or that failed outside of its handler.

        On Python 3.11 a task that is cancelled before its first step does not run at all.
        """
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if not running.over:
            outcome = running.interruption or outcomes.RELEASED
            self._leave(running, self._executor.judge(running.claim, error) if error else outcome)

    def _lend(self, running: Running) -> None:
        """Lend the slot of an attempt that only waits, unless too many are lent."""
        if running in self._running and self._slots.lend():
            running.lent = True
            self._lent += 1
            self._after()

    def _leave(self, running: Running, outcome: Outcome) -> None:
        """End an attempt whose handler has ended, and start others in its place."""
        self._free(running, outcome)
        self._after()

    def ended_in_thread(self, running: Running, outcome: Outcome) -> None:
        """End an attempt of a thread; start others once for all attempts that end at once."""
        self._free(running, outcome)
        if not self._starts_soon:
            self._starts_soon = True
            asyncio.get_running_loop().call_soon(self._after_several, context=self._context)

    def _after_several(self) -> None:
        self._starts_soon = False
        self._after()

    def _free(self, running: Running, outcome: Outcome) -> None:
        """Free the slot of an attempt whose handler has ended, and pass on its outcome."""
        running.over = True
        running.stop_timers()
        if running in self._running:
            self._end(running, outcome)
        else:
            self._slots.abandoned -= 1
            self._say_late(running, outcome)

    def _end(self, running: Running, outcome: Outcome) -> None:
        self._running.discard(running)
        self._slots.give_back(running.lent)
        self._lent -= running.lent
        finished = running.ended or monotonic()
        self._pace.took(finished - running.started)
        claim = running.claim
        linked = claim.linked or self._executor.options[claim.task].task.keeps_results
        if running.settled:
            own = Finished(claim, outcome, running.started, finished, None, linked)
            self._completer.note_own(own, [*([Wake()] if linked else []), *running.woken])
            return
        if outcome.kind is OutcomeKind.LOST:
            self._completer.announce_woken(running.woken)
            return
        follow_up = self._executor.follow_up(claim, outcome)
        self._completer.add(Finished(claim, outcome, running.started, finished, follow_up, linked))

    def _after(self) -> None:
        slots = self._slots
        if slots.pumping:
            return
        if self._buffer or not slots.alone:
            slots.pump(self)
        if not self._buffer:
            self.changed.set()

    def _expire(self, running: Running, timeout: float) -> None:
        self._cut(running, AttemptTimeout(f"took longer than its timeout of {timeout:g} s"))

    def _stalled(self, running: Running, silent: float) -> None:
        reason = f"gave no sign of life for its stall_timeout of {silent:g} s"
        self._cut(running, AttemptStalled(reason))

    def _cut(self, running: Running, error: Exception) -> None:
        """End an attempt that exceeded a timeout, unless it has ended in time."""
        self._calls.collect()
        if running.over:
            return
        claim = running.claim
        if self._executor.options[claim.task].in_thread:
            log.error(
                "job %s (%s) is stuck: a thread cannot be ended; its slot is lost until it returns",
                *(claim.id, claim.task),
                extra={"job": claim.id, "task": claim.task, "run": claim.run},
            )
        outcome = self._executor.judge(claim, error)
        running.note_error(error)
        self._interrupt(running, outcome)

    def _interrupt(self, running: Running, outcome: Outcome) -> None:
        try:
            running.interrupt(outcome)
        except Exception as error:  # noqa: BLE001 (for example, a child that cannot be killed)
            log.error("job %s could not be interrupted", running.claim.id, exc_info=error)
        loop = asyncio.get_running_loop()
        loop.call_later(self.patience_with_cancelled, self._abandon, running)

    def _abandon(self, running: Running) -> None:
        """Settle an attempt whose coroutine ignores its cancellation."""
        if running not in self._running or running.interruption is None:
            return
        log.error("job %s (%s) is stuck", running.claim.id, running.claim.task)
        self._slots.abandoned += 1
        self._end(running, running.interruption)
        self._after()

    def _say_late(self, running: Running, outcome: Outcome) -> None:
        log.warning(
            "job %s (%s) returned after it was given up; its outcome %s is dropped",
            *(running.claim.id, running.claim.task, outcome.kind),
        )
