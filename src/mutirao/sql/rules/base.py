"""The interface of a dialect's rules, general ones or functions of the database."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, TypeVar

from mutirao.model.brokers.doorbell import Doorbell
from mutirao.model.jobs.job import UNCOUNTED_OUTCOMES, Claim, Lane, LaneHead, OutcomeKind
from mutirao.model.jobs.outcome import Outcome, Settlement
from mutirao.model.jobs.states import Fault
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import KeyName
from mutirao.sql.drivers.steps import Bracket, Query

if TYPE_CHECKING:
    from mutirao.model.webhooks.webhook_attempts import WebhookAttempt


class Rules(ABC):
    """Decide what happens to jobs, in steps. `ports.Store` has the contracts of these methods.

    `in_transaction`: True if the steps of one call need a transaction. Otherwise each statement may
    commit by itself.
    `bracket`: encloses the steps of a call, where these are sent without SQLAlchemy; see
    `drivers.pipelining`.
    `waits_while_holding`: a transaction that has locked live rows may wait for others, as all lock
    them in one order.
    """

    in_transaction: ClassVar[bool]
    bracket: ClassVar[Bracket | None] = None
    waits_while_holding: bool = True

    @abstractmethod
    def lanes(self, queues: Collection[str] | None, now: datetime | None) -> Query[list[LaneHead]]:
        """Read the heads of all lanes, rung ones included. Reads only; needs no transaction."""

    @abstractmethod
    def claim(
        self,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        without: Collection[str],
        now: datetime | None,
    ) -> Query[list[Claim]]:
        """Take due jobs."""

    @abstractmethod
    def ring(
        self, lanes: Sequence[Lane], limit: int, now: datetime | None
    ) -> Query[list[Doorbell]]:
        """Ring the doorbells of due jobs."""

    @abstractmethod
    def answer(
        self, worker: int, rung: Sequence[tuple[int, int]], now: datetime | None
    ) -> Query[list[Claim]]:
        """Take the jobs of doorbells, each of them once, that wait with that run."""

    @abstractmethod
    def finish(
        self,
        settlements: Sequence[Settlement],
        now: datetime | None,
        held: Sequence[int] = (),
        *,
        patient: bool = False,
    ) -> Query[set[int]]:
        """Write final outcomes: the jobs leave the live table.

        `held` are all jobs of the transaction, where it settles others, too, or others may wait for
        them: what it will touch is locked first. `patient` says to wait for the transaction that
        has locked a row; otherwise a second is enough, as other jobs wait, too.
        """

    def complete(self, settlement: Settlement) -> Query[set[int]]:
        """Write that a job succeeded, at the end of its handler's transaction.

        Nobody waits for the job, and no result is kept. Returns its id, or nothing if the run is
        stale: then the transaction must be rolled back, and may have failed.
        """
        return (yield from self.finish([settlement], None, patient=True))

    @abstractmethod
    def delivered(
        self,
        attempts: Sequence["WebhookAttempt"],
        done: Sequence[Settlement],
        now: datetime | None,
    ) -> Query[set[int] | None]:
        """Write attempts at webhooks that all went well, and complete jobs, as `finish` does.

        Counts what has proven to go well. Returns None, and has written nothing, where there is a
        breaker of one of their endpoints or hosts: its writer locks it before jobs.
        """

    @abstractmethod
    def resume(
        self, worker: int, settlements: Sequence[Settlement], now: datetime | None
    ) -> Query[set[int]]:
        """Write outcomes after which the jobs wait again."""

    @abstractmethod
    def release(self, jobs: Sequence[tuple[int, int]]) -> Query[set[int]]:
        """Give back jobs that were never started, and wake idle workers."""

    @abstractmethod
    def lose(self, jobs: Sequence[tuple[int, int]], now: datetime | None) -> Query[set[int]]:
        """Write down that runs were lost, and let those jobs wait again."""

    def is_anyone_gone(self, now: datetime | None) -> Query[bool]:
        """Return whether `rescue` has anything to do; asked first if that takes a transaction."""
        yield from ()
        return True

    @abstractmethod
    def rescue(self, orphans: bool, now: datetime | None) -> Query[list[tuple[int, int]]]:
        """Give back the jobs of expired workers, remove those workers and wake idle ones."""

    # When a transaction commits. Without a way to notify they do nothing: workers and callers
    # notice that by themselves, or poll.

    @abstractmethod
    def wake(self) -> Query[None]:
        """Wake idle workers that listen, when this transaction commits."""

    @abstractmethod
    def wake_all(self) -> Query[None]:
        """Make all workers look again when this transaction commits, also busy ones."""

    @abstractmethod
    def notify_ended(self, jobs: Sequence[int]) -> Query[None]:
        """Notify callers that wait for the end of these jobs, when this transaction commits."""

    @abstractmethod
    def hold(self, jobs: Sequence[int]) -> Query[None]:
        """Lock the live rows that the end of these jobs will touch, in the order of their ids.

        Theirs, those of jobs that wait for them, and of jobs that they wait for.
        """

    @abstractmethod
    def judge(self, name: KeyName, task: str, rule: Supersede, now: datetime | None) -> Query[None]:
        """Apply a supersede rule to the jobs of a task and a key that SQL enqueued."""

    # Sums by the hour; see `mutirao.model.jobs.hours`.

    @abstractmethod
    def roll_up(self, keep: float | None, now: datetime | None) -> Query[bool]:
        """Add attempts that have ended to their hours; return whether there is more.

        `keep`: seconds after which an hour is deleted; None: never.
        """

    @abstractmethod
    def count_backlog(self, most: int, now: datetime | None) -> Query[None]:
        """Count live jobs for the next minutes if there are more than `most`."""

    # Limits; see `mutirao.model.limits.limits`.

    @abstractmethod
    def let_go(self, jobs: Sequence[int], now: datetime | None) -> Query[None]:
        """Free the slots of those of these jobs that no longer run."""

    @abstractmethod
    def open_limit(self, name: str, now: datetime | None) -> Query[bool]:
        """Count the running jobs that a new limit covers. Claims wait until this is done.

        Returns whether some were left, as others had them: see `left_by_limits`.
        """

    @abstractmethod
    def close_limit(self, name: str, now: datetime | None) -> Query[bool]:
        """Delete what a limit counted, and release the jobs it blocked. Claims wait meanwhile.

        Returns whether some were left, as others had them.
        """

    def left_by_limits(self) -> Query[list[int]]:
        """Return jobs that a change of limits has left, as others had them. Reads only.

        There are none where a caller that changes limits waits for others.
        """
        yield from ()
        return []

    def catch_up(self, job: int, now: datetime | None) -> Query[None]:
        """Wait for the transaction that has one of them, and do what was left."""
        yield from ()

    @abstractmethod
    def mend_limits(self, now: datetime | None) -> Query[None]:
        """Release blocked jobs for which there is room, and free slots that no job holds."""


Claims = TypeVar("Claims", bound=list[Claim])


def in_lane_order(claims: Claims, lanes: Sequence[Lane]) -> Claims:
    """Sort claims, in place, by the order their lanes were given in, then by their place there."""
    claims.sort(key=attrgetter("run_at", "id"))
    if len(lanes) > 1:
        rank = {(lane.queue, lane.priority): n for n, lane in enumerate(lanes)}
        claims.sort(key=lambda claim: rank[claim.queue, claim.priority])
    return claims


def given_back(outcome: Outcome) -> int:
    """Return what a job that waits again is to count, as all databases have it.

    0: an attempt. 1: none. 2: none, and it keeps its counts in `lost` and `cut_off`, with one
    more in `cut_off` for 3 and in `lost` for 4. -1: an attempt, and it takes no turns any more.
    """
    if outcome.apart:
        return -1
    if outcome.kind is not OutcomeKind.RELEASED:
        return int(outcome.kind in UNCOUNTED_OUTCOMES)
    return {None: 2, Fault.CONNECTION: 3, Fault.WORKER: 4}[outcome.fault]


def by_id(settlements: Sequence[Settlement]) -> list[Settlement]:
    """Sort by id: every statement locks live rows in that order, so none waits in a circle."""
    return sorted(settlements, key=attrgetter("id"))
