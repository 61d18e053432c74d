"""Claims due jobs for one worker while it has room; otherwise sleeps until one is due.

It sleeps until the earliest known job is due, a wake-up arrives or the poll interval ends,
whichever comes first. It requests notifications only while it sleeps: NOTIFY makes all commits of a
database queue up, and a busy worker avoids that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime
from math import inf
from time import monotonic
from typing import Protocol

from mutirao.aio import wait_for
from mutirao.engine.claiming.lane_positions import LaneBook, many_lanes_noted
from mutirao.engine.claiming.unanswered_claims import Runs, UnansweredClaims
from mutirao.engine.claiming.unreadable_rows import UnreadableRowSearch, passes
from mutirao.engine.claiming.unrunnable import Unfit
from mutirao.engine.claiming.wakeups import Hearing, ListenPolicy, Look
from mutirao.engine.dispatch.admission import ServedTasks
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.engine.loops import MAX_REST, LoopHealth, LoopRetry
from mutirao.engine.measurement_listeners import Listeners
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.worker_row import WorkerRow
from mutirao.log import log
from mutirao.model.brokers.doorbell import Doorbell
from mutirao.model.jobs.job import Claim, Lane, Wake
from mutirao.model.jobs.outcome import Outcome
from mutirao.model.limits.claims_and_wakes import Claimed
from mutirao.model.limits.fairness import lanes_of, queue_of
from mutirao.ports import Notifier


class Relaying(Protocol):
    """Receives wake-ups and due times for a relay; see `mutirao.engine.brokers.relay`."""

    def wake(self) -> None:
        """Look for due jobs now."""

    def expect(self, due_at: float) -> None:
        """Look again when a job is due, in monotonic seconds."""


class _NoRelay:
    def wake(self) -> None:
        """Do nothing."""

    def expect(self, due_at: float) -> None:
        """Do nothing."""


NO_RELAY: Relaying = _NoRelay()


LISTENER_TIMEOUT = 1.0  # seconds that a worker waits for its listener before the first claim
REFRESH_SHARE = 50  # reading the heads may take 1/50 of the time: ≤ 2 %
REFRESH_POLLS = 3  # polls after which they are read at the latest: a slow read is no reason to wait
# Seconds after which a worker that began to listen reads the heads once more, doubled until a poll:
# transactions that were open then have not notified it.
FIRST_LOOK_BACK = 0.01
NEW_LANES_AFTER = 0.25  # seconds between reads of new lanes, for a worker without notifications
# Seconds after which a second worker looks for a job, in case the first one is busy, frozen or
# gone; the next two look four times as late each.
SECOND_WORKER_DELAY, DELAY_GROWTH = 0.025, 4
MAX_HEADS_DELAY = 0.5  # seconds: if they may be read only later than that, it claims instead
STOP_LISTENING_AFTER = 0.5  # seconds without room, after which notifications are not needed


def _ahead(outcome: Outcome) -> float:
    if outcome.at is None:
        return outcome.after or 0.0
    return (outcome.at - datetime.now(UTC)).total_seconds()


class Producer:
    """The claiming loop and the listening loop of one worker."""

    def __init__(
        self,
        row: WorkerRow,
        notifier: Notifier | None,
        settings: WorkerSettings,
        tasks: Collection[str],
        dispatcher: Dispatcher,
        pulse: LoopHealth,
        elsewhere: Collection[str] = (),
    ) -> None:
        """Set the parts; `elsewhere`: the queues whose jobs are claimed by their doorbells."""
        self._row, self._store, self._settings = row, row.store, settings
        self._elsewhere, self._relay = frozenset(elsewhere), NO_RELAY
        self._hearing = Hearing(notifier, settings)
        self._dispatcher, self._pulse = dispatcher, pulse
        queues = settings.queues
        self._lanes = LaneBook(
            None if queues is None else frozenset(lanes_of(queues)),
            but=frozenset(lanes_of({*(settings.exclude_queues or ()), *elsewhere})),
        )
        self._has_lanes = queues is None or not self._elsewhere.issuperset(queues)
        # Without a choice these are all tasks of the application, also those registered later.
        names: Collection[str] = tasks if settings.tasks is None else {*settings.tasks}
        self._served = ServedTasks(names, {name for name in tasks if name not in names})
        self._woken = asyncio.Event()
        self._refresh_at = 0.0  # monotonic
        self._may_refresh_at = 0.0  # monotonic
        self._guessing = False  # whether claims have made the heads outdated
        self._listening = True  # as registered
        self._look_back = FIRST_LOOK_BACK
        self._attention = ListenPolicy(monotonic())
        self._between_claims = asyncio.Lock()
        self._unanswered = UnansweredClaims(
            row, dispatcher, self._between_claims, settings.longest_wait
        )
        self._unfit = Unfit(row, dispatcher, self._unanswered, self._served)
        self._sieve = UnreadableRowSearch(row, dispatcher, self._claim_these)
        self.doubt, self.find_unanswered = self._unanswered.doubt, self._unanswered.run
        self.claimed = asyncio.Event()  # set once the first claim was answered
        self._stopping = False
        self.listeners: Listeners | None = None  # measure the worker

    async def run(self) -> None:
        """Claim until stopped; wait while the database is away."""
        if self.hears is not None:
            # The heads must be read after the listener has started, and only once: with 600,000
            # dead rows that a snapshot keeps alive, that takes 0.1 to 0.2 s.
            await self._sleep(LISTENER_TIMEOUT)
        trouble = LoopRetry(
            "cannot claim", "claiming again", self._settings.longest_wait, self._settings.patience
        )
        many = many_lanes_noted(self._lanes)
        while not self._stopping:
            try:
                with many:
                    await self._turn()
                trouble.over()
            except Exception as error:  # noqa: BLE001 (raised if it does not pass)
                self._refresh_at = 0.0
                self._dispatcher.expect_none()
                self._sieve.met(error)
                await self._rest_from(error, trouble.met(error))

    @property
    def hears(self) -> bool | None:
        """Whether wake-ups reach this worker at the moment; None: it only polls."""
        return self._hearing.hears

    @property
    def has_lanes(self) -> bool:
        """Whether it claims jobs that no broker carries."""
        return self._has_lanes

    async def listen(self) -> None:
        """Pass on the notifier's wake-ups, forever; listen again after a failure."""
        await self._hearing.run(self.wake, self._deaf)

    def stop(self) -> None:
        """Make `run` end after its current claim."""
        self._stopping = True
        self._woken.set()
        self._dispatcher.changed.set()

    def wake(self, wake: Wake) -> None:
        """Look for jobs now, in the named lane or in all; or later, after other workers.

        A worker that is named to look after others reads the heads of the lanes once for all
        wake-ups until then. It does not see jobs that the others have taken by then.
        """
        # Another machine's clock may differ; then polling finds the job.
        ahead = 0.0 if wake.run_at is None else (wake.run_at - datetime.now(UTC)).total_seconds()
        turn = wake.turn(self._row.id) if self._listening else 0
        if turn is None:
            return
        if wake.queue is None or queue_of(wake.queue) in self._elsewhere:
            self._relay.wake()
        if turn > 0:
            ahead = max(0.0, ahead) + SECOND_WORKER_DELAY * DELAY_GROWTH ** (turn - 1)
            if self._may_refresh_at < monotonic() + ahead + MAX_HEADS_DELAY:
                self._look_by(monotonic() + ahead)
                self._woken.set()
                return
        if not self._lanes.wake(wake, monotonic(), ahead):
            self._refresh_at = 0.0
        self._woken.set()

    def _deaf(self, seldom: bool) -> None:
        if seldom:  # what came while the notifier was away was not notified
            self._refresh_at = 0.0
        self._woken.set()  # `run` need not wait for the listener

    def _look_by(self, moment: float) -> None:
        self._refresh_at = min(self._refresh_at, max(moment, self._may_refresh_at))

    def expect(self, claim: Claim, outcome: Outcome) -> None:
        """Record that a job of this worker waits for its next attempt, at the time in `outcome`."""
        lane = claim.queue if outcome.apart else claim.lane
        if claim.queue in self._elsewhere:
            self._relay.expect(monotonic() + _ahead(outcome))
        elif outcome.at is None:
            due_at = monotonic() + (outcome.after or 0.0)
            self._lanes.expect(lane, claim.priority, due_at)
            self._woken.set()
        else:
            self.wake(Wake(lane, claim.priority, outcome.at))

    def reborn(self, former: int, begun: Runs) -> None:
        """Start again under a new worker id, which is registered as listening.

        `begun`: the attempts that were running under the former id.
        """
        self._unanswered.reborn(former, begun)
        self._listening, self._look_back = True, FIRST_LOOK_BACK
        self._hearing.attend(True)
        self.wake(Wake())
        self._dispatcher.changed.set()

    async def _turn(self) -> None:
        self._pulse.turn()
        await self._give_back_stalled()
        wanted = self._dispatcher.wanted()
        if not wanted:
            await self._wait_for_room()
            return
        async with self._between_claims:
            if self._sieve.is_due:
                found = await self._sieve.due(await self._lanes_to_sift())
                await self._sieve.sift(found, wanted)
                return
            claims = await self._claim(wanted)
            if claims:  # an empty claim does not mean that jobs start
                self._dispatcher.feed(await self._unfit.release(claims))
            else:
                self._dispatcher.expect_none()
        self.claimed.set()
        hears = bool(self._hearing.hears)
        short = len(claims) < wanted and not self._lanes.in_parts  # others were not asked about
        self._attention.looked(bool(claims), hears=hears)
        if short and hears:
            self._attention.had_time(monotonic())
        if not claims:
            await self._rest()
            return
        self._attention.took(len(claims), monotonic())
        await self._go_on(short)
        await asyncio.sleep(0)

    async def _go_on(self, short: bool) -> None:
        """Get ready for the next claim, after one that found something."""
        busy = self._attention.busy(monotonic())
        if self._listening:
            if busy:
                await self._listen_no_more()
        elif short and self._hearing.hears and not busy:
            await self._listen_again()
        elif short and self._attention.hurries:
            self._attention.look = Look.AT_ONCE
        elif short:
            await self._pause()

    async def _claim(self, wanted: int) -> list[Claim]:
        if not self._has_lanes:
            self._refresh_at = inf
            return []
        fresh = monotonic() >= self._refresh_at
        if fresh:
            await self._read_heads()
        lanes = self._lanes.due(monotonic())
        if not lanes:
            return []
        claims = await self._take(lanes, wanted)
        while self._lanes.in_parts and not claims:
            self._lanes.exhausted(lanes)
            lanes = self._lanes.due(monotonic())
            claims = await self._take(lanes, wanted)
        self._lanes.claimed(claims, monotonic())
        if len(claims) < wanted and (self._listening or self._lanes.in_parts):
            self._lanes.exhausted(lanes)
        self._look_behind(claims)
        # Empty although the heads are fresh: those are not for us; reading again does not help.
        self._guessing = self._guessing or bool(claims) or not fresh
        return claims

    async def _take(self, lanes: list[Lane], wanted: int) -> list[Claim]:
        started = monotonic()
        self._lanes.asking()
        self._dispatcher.expect()
        without = tuple(self._served.left)
        claims = await self._known(
            lambda worker: self._store.claim(worker, lanes, wanted, without=without)
        )
        if self.listeners is not None:
            self.listeners.claimed(len(claims), monotonic() - started)
        if monotonic() - started > self._settings.poll:  # it was delayed, and jobs may have arrived
            self._refresh_at = 0.0
        return claims

    async def _known(self, claim: Callable[[int], Awaitable[list[Claim]]]) -> list[Claim]:
        """Claim for this worker; return the claims that it holds afterwards."""
        worker = self._row.id
        with self._unanswered.unsure_unless_answered():
            claims = await claim(worker)
            if worker != self._row.id:  # that worker id is gone by now: they would be rescued
                await self._store.release([(claim.id, claim.run) for claim in claims])
                return []
        return claims

    async def _lanes_to_sift(self) -> list[Lane] | None:
        """Return the lanes with due jobs; None: all lanes are ours, and no query can read them."""
        try:
            await self._read_heads()
        except Exception as error:
            if passes(error) or self._settings.queues is not None or self._elsewhere:
                raise
            return None
        finally:
            self._refresh_at = 0.0  # the next turn reads them again
        return self._lanes.due(monotonic())

    async def _claim_these(self, jobs: Collection[int]) -> list[Claim]:
        """Claim jobs by their ids and start them; return the claims."""
        claims = await self._known(lambda worker: self._store.claim_these(worker, jobs))
        self._dispatcher.feed(await self._unfit.release(claims))
        return claims

    async def answer(self, doorbells: Sequence[Doorbell]) -> Sequence[Claim]:
        """Claim the jobs of doorbells and start them; return the claims."""
        async with self._between_claims:
            started = monotonic()
            try:
                claims = await self._known(lambda worker: self._store.answer(worker, doorbells))
                if self.listeners is not None:
                    self.listeners.claimed(len(claims), monotonic() - started)
                if claims:
                    self._dispatcher.feed(await self._unfit.release(claims))
            except Exception as error:
                self._sieve.met(error)
                if not self._sieve.is_due:
                    raise
                jobs = [bell.id for bell in doorbells]
                await self._sieve.sift(jobs, len(jobs))
                return []
        self._look_behind(claims)
        return claims

    def _look_behind(self, claims: list[Claim]) -> None:
        for wake in claims.woken if isinstance(claims, Claimed) else ():
            self.wake(wake)

    def leave_to(self, relay: Relaying) -> None:
        """Pass on to a relay all wake-ups for queues whose jobs are claimed by their doorbells."""
        self._relay = relay

    async def _read_heads(self) -> None:
        started = monotonic()
        self._lanes.asking()
        self._refresh_at = inf  # a wake-up without a lane may lower it during the query
        heads = await self._store.lanes(self._settings.queues)
        now, poll = monotonic(), self._settings.poll
        self._lanes.refresh(heads, now, notified=self._listening)
        self._guessing = False
        self._may_refresh_at = now + min(REFRESH_SHARE * (now - started), REFRESH_POLLS * poll)
        usual = self._hearing.poll if self._listening else min(poll, NEW_LANES_AFTER)
        if self._listening and self._look_back < usual and not self._hearing.complete:
            usual, self._look_back = self._look_back, 2 * self._look_back
        self._refresh_at = min(self._refresh_at, max(now + usual, self._may_refresh_at))

    async def _give_back_stalled(self) -> None:
        """Release jobs that have waited too long for a slot here; another worker may be free."""
        if stalled := self._dispatcher.drop_stalled():
            log.info("handlers take longer than before; giving back %s jobs", len(stalled))
            with self._unanswered.unsure_unless_answered():
                await self._store.release(stalled)

    def _patience(self) -> float:
        """Return the seconds to wait at most, until jobs have waited too long or a sign is due."""
        return min(self._dispatcher.patience(), MAX_REST)

    async def _rest(self) -> None:
        """Sleep until something may be due, after requesting notifications."""
        if self._listening:
            if self._guessing:  # jobs that waited behind the claimed ones are not notified
                self._refresh_at = min(self._refresh_at, self._may_refresh_at)
            due = min(self._lanes.next_due(), self._refresh_at)
            await self._sleep(min(due - monotonic(), self._patience()))
            self._attention.had_time(monotonic())
        elif self._attention.record_empty_claim() or (
            self._hearing.hears and not self._attention.busy(monotonic())
        ):
            await self._listen_again()
        else:
            await self._pause()

    async def _pause(self) -> None:
        """Wait a moment, or until jobs are known to be ready."""
        woken = await self._sleep(self._attention.pause)
        self._attention.look = Look.WOKEN if woken else Look.IN_TURN

    async def _listen_again(self) -> None:
        await self._store.listen(self._row.id, True)
        self._hearing.attend(True)
        # What arrived before we listened was not notified, so look once more.
        self._listening, self._refresh_at, self._look_back = True, 0.0, FIRST_LOOK_BACK

    async def _listen_no_more(self) -> None:
        self._listening = False
        self._hearing.attend(False)
        await self._store.listen(self._row.id, False)
        self._lanes.suspect(monotonic())  # the claim before may have taken all that was in them

    async def _wait_for_room(self) -> None:
        self._dispatcher.changed.clear()
        seconds = min(self._patience(), STOP_LISTENING_AFTER if self._listening else inf)
        if self._dispatcher.wanted() or seconds <= 0 or self._stopping:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._dispatcher.changed.wait()
        except TimeoutError:
            if self._listening:
                await self._listen_no_more()

    async def _rest_from(self, error: Exception, seconds: float) -> None:
        """Sleep after an error; if it does not pass, ignore wake-ups: returned jobs cause them."""
        until = monotonic() + seconds
        while await self._sleep(until - monotonic()) and not (passes(error) or self._stopping):
            pass

    async def _sleep(self, seconds: float) -> bool:
        """Sleep for this many seconds, or until woken; return whether it was woken."""
        if self._stopping:
            return False
        woken = await wait_for(self._woken, seconds)
        self._woken.clear()
        return woken
