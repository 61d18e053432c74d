"""Settles jobs in one transaction, in as few round trips as graphs and keys allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from mutirao.model.jobs.job import OutcomeKind
from mutirao.model.limits.claims_and_wakes import anywhere, both
from mutirao.sql import statements
from mutirao.sql.drivers.kinds import through

if TYPE_CHECKING:
    from mutirao.model.jobs.job import NewJob
    from mutirao.model.jobs.outcome import Settlement
    from mutirao.sql.dialects.base import Dialect


class Settling:
    """Writes outcomes, and does what jobs of keys and steps of graphs wait for.

    Parameters:
        dialect: that of the database.
        enqueue: writes jobs through a connection: those that handle deaths, or compensate.
    """

    def __init__(
        self, dialect: Dialect, enqueue: Callable[[Iterable[NewJob], Connection], list[int]]
    ) -> None:
        self._dialect, self._rules, self._enqueue = dialect, dialect.rules, enqueue

    def settle(
        self,
        conn: Connection,
        worker: int,
        done: Sequence[Settlement],
        waiting: Sequence[Settlement],
        now: datetime | None,
    ) -> set[int]:
        """Write outcomes, final ones and others, and enqueue the jobs that follow."""
        settled = set[int]()
        stopped = statements.schedules.hold(conn, self._dialect, done)
        if done:
            settled = self.finish(conn, done, now, [s.id for s in waiting])
        if waiting:
            settled = both(settled, self._resume(conn, worker, waiting, now, held=bool(done)))
        # Of two runs of one job in a batch, the later one is current and the earlier one is stale.
        latest = {s.id: s for s in sorted((*done, *waiting), key=lambda s: s.run)}
        ended = [s for s in latest.values() if s.id in settled]
        if follow_ups := [s.follow_up for s in ended if s.follow_up]:
            self._enqueue(follow_ups, conn)
        statements.schedules.pause(conn, self._dialect, stopped, ended, now)
        return settled

    def finish(
        self,
        conn: Connection,
        done: Sequence[Settlement],
        now: datetime | None,
        beside: Sequence[int] = (),
        *,
        patient: bool = False,
    ) -> set[int]:
        """Write final outcomes; `beside` are other jobs that this transaction will settle."""
        batch = sorted([*beside, *(s.id for s in done)])
        linked = {s.id: s for s in sorted(done, key=lambda s: s.run) if s.linked}
        if linked:
            statements.graphs.hold(conn, list(linked))
            succeeded = OutcomeKind.SUCCEEDED
            if failed := [s.id for s in linked.values() if s.outcome.kind is not succeeded]:
                statements.graphs.lock_compensated(conn, self._dialect, failed, batch)
        awaited = beside or any(s.keyed for s in done)
        held = batch if awaited else ()
        settled = through(conn, self._rules.finish(done, now, held, patient=patient))
        if ended := [s for s in linked.values() if s.id in settled]:
            statements.results.keep(conn, self._dialect, ended, now)
            kinds = {s.id: s.outcome.kind for s in ended}
            statements.graphs.ended(conn, self._dialect, self._enqueue, kinds, now)
            through(conn, self._rules.notify_ended(list(kinds)))
        if keyed := [s.id for s in done if s.keyed and s.id in settled]:
            statements.uniqueness.let_go(conn, self._dialect, keyed)
        return settled

    def finish_one(self, conn: Connection, settlement: Settlement) -> set[int]:
        """Write the final outcome of a job whose handler's transaction this is."""
        return self.finish(conn, [settlement], None, patient=True)

    def _resume(
        self,
        conn: Connection,
        worker: int,
        waiting: Sequence[Settlement],
        now: datetime | None,
        *,
        held: bool,
    ) -> set[int]:
        """Write outcomes after which jobs wait again, unless newer ones of their keys wait."""
        keyed = [s.id for s in waiting if s.keyed]
        if keyed and not held:
            through(conn, self._rules.hold(sorted(s.id for s in waiting)))
        settled = through(conn, self._rules.resume(worker, waiting, now))
        again = [id for id in keyed if id in settled]
        if again and statements.uniqueness.overtake(conn, self._dialect, again, now):
            return both(settled, anywhere())
        return settled
