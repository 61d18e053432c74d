"""What a database must say in its own words.

Everything here is a synchronous function of a SQLAlchemy `Connection`; the contracts are those of
the methods of the same name in `mutirao.ports.Store`. The connection is in a transaction, except
where a method says that it is a single statement. `Standing` has the hot ones of these in steps.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime
from operator import attrgetter
from typing import ClassVar, TypeVar

from sqlalchemy import ColumnElement, Connection, Insert, Table

from mutirao.job import UNCOUNTED_OUTCOMES, Claim, Lane, LaneHead, OutcomeKind
from mutirao.outcome import Outcome, Settlement
from mutirao.sql.callers.steps import Asking
from mutirao.states import Fault


class Standing(ABC):
    """What workers do all day, as single statements that need no transaction.

    In steps, which go past SQLAlchemy where connections are ours: it takes 0.4 ms for a claim of a
    worker that was idle, a third of the time from the commit of a job to its handler.
    """

    @abstractmethod
    def claim(
        self,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        without: Collection[str],
        now: datetime | None,
    ) -> Asking[list[Claim]]:
        """Take due jobs."""

    @abstractmethod
    def finish(
        self,
        settlements: Sequence[Settlement],
        now: datetime | None,
        held: Sequence[int] = (),
        *,
        patient: bool = False,
    ) -> Asking[set[int]]:
        """Write final outcomes."""

    @abstractmethod
    def resume(
        self, worker: int, settlements: Sequence[Settlement], now: datetime | None
    ) -> Asking[set[int]]:
        """Write outcomes after which the jobs wait again."""

    @abstractmethod
    def release(self, jobs: Sequence[tuple[int, int]]) -> Asking[set[int]]:
        """Give back jobs that were never started."""


class Dialect(ABC):
    """One database's own words for the hot statements and for time."""

    name: ClassVar[str]
    standing: ClassVar[Standing | None]  # None: what workers do all day takes a transaction
    tells_ends: ClassVar[bool]  # whether those who wait for an end have to ask to be told of it

    @abstractmethod
    def moment(self, now: datetime | None, plus: float = 0.0) -> ColumnElement[datetime]:
        """Return `now` (None: the database's clock) plus some seconds, as an expression."""

    @abstractmethod
    def held_by(self, worker: int) -> ColumnElement[bool]:
        """Return the condition on `mutirao_live` that a worker holds the job."""

    @abstractmethod
    def to_cancel_by(self, worker: int) -> ColumnElement[bool]:
        """Return the condition on `mutirao_live` that a worker is to cancel the job."""

    @abstractmethod
    def has_to_cancel(self, worker: int) -> ColumnElement[bool]:
        """Return whether there is such a job, as an expression."""

    @abstractmethod
    def insert_unless_exists(self, table: Table) -> Insert:
        """Return an INSERT that does nothing, and counts no row, where the key is taken."""

    @abstractmethod
    def lanes(
        self, conn: Connection, queues: Collection[str] | None, now: datetime | None
    ) -> list[LaneHead]:
        """Read the heads of all lanes. Reads only; needs no transaction."""

    @abstractmethod
    def claim(
        self,
        conn: Connection,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        without: Collection[str],
        now: datetime | None,
    ) -> list[Claim]:
        """Take due jobs."""

    @abstractmethod
    def finish(
        self,
        conn: Connection,
        settlements: Sequence[Settlement],
        now: datetime | None,
        held: Sequence[int] = (),
        *,
        patient: bool = False,
    ) -> set[int]:
        """Write final outcomes: the jobs leave the live table. A single statement.

        `held` are all jobs of the transaction, where it settles others, too, or others may wait for
        them: what it will touch is locked first. `patient` says to wait for whoever has locked a
        row; otherwise a second is enough, as other jobs wait, too.
        """

    @abstractmethod
    def resume(
        self,
        conn: Connection,
        worker: int,
        settlements: Sequence[Settlement],
        now: datetime | None,
    ) -> set[int]:
        """Write outcomes after which the jobs wait again. A single statement."""

    @abstractmethod
    def release(self, conn: Connection, jobs: Sequence[tuple[int, int]]) -> set[int]:
        """Give back jobs that were never started, and wake idle workers. A single statement."""

    @abstractmethod
    def lose(
        self, conn: Connection, jobs: Sequence[tuple[int, int]], now: datetime | None
    ) -> set[int]:
        """Write down that runs were lost, and let those jobs wait again."""

    @abstractmethod
    def rescue(
        self, conn: Connection, orphans: bool, now: datetime | None
    ) -> list[tuple[int, int]]:
        """Give back the jobs of expired workers, remove those workers and wake idle ones."""

    def someone_is_gone(self, conn: Connection, now: datetime | None) -> bool:
        """Tell whether `rescue` has anything to do, where asking first is cheaper."""
        return True

    @abstractmethod
    def wake(self, conn: Connection) -> None:
        """Wake idle workers that listen, when this transaction commits. A single statement."""

    @abstractmethod
    def hold(self, conn: Connection, jobs: Sequence[int]) -> None:
        """Lock the live rows that the end of these jobs will touch, in the order of their ids.

        Theirs, those of jobs that wait for them, and of jobs that they wait for.
        """

    # Limits; see `mutirao.sql.limits`.

    @abstractmethod
    def let_go(self, conn: Connection, jobs: Sequence[int], now: datetime | None) -> None:
        """Give back what those of these jobs hold that do not run any more. A single statement."""

    @abstractmethod
    def open_limit(self, conn: Connection, name: str, now: datetime | None) -> None:
        """Count what a new limit covers and runs already. Claims are kept out."""

    @abstractmethod
    def close_limit(self, conn: Connection, name: str, now: datetime | None) -> None:
        """Forget what a limit counted, and let go what waited for it. Claims are kept out."""

    @abstractmethod
    def mend_limits(self, conn: Connection, now: datetime | None) -> None:
        """Call whoever there is room for, and give back what nobody holds. A single statement."""

    @abstractmethod
    def tell_ended(self, conn: Connection, jobs: Sequence[int]) -> None:
        """Tell those who wait for the end of these jobs, when this transaction commits."""

    @abstractmethod
    def refresh_statistics(self, conn: Connection) -> None:
        """Update the planner's statistics. Outside a transaction."""


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

    0: an attempt. 1: none. 2: none, and what it counts in `lost` and `cut_off` goes on, with one
    more in `cut_off` for 3 and in `lost` for 4.
    """
    if outcome.kind is not OutcomeKind.RELEASED:
        return int(outcome.kind in UNCOUNTED_OUTCOMES)
    return {None: 2, Fault.CONNECTION: 3, Fault.WORKER: 4}[outcome.fault]


def by_id(settlements: Sequence[Settlement]) -> list[Settlement]:
    """Sort by id: every statement locks live rows in that order, so none waits in a circle."""
    return sorted(settlements, key=attrgetter("id"))
