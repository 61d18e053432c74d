"""Checks the promises every ten seconds and at the end, and takes the workers' measure."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from sqlalchemy import Connection, func, select

from mutirao.model.jobs.job import OutcomeKind
from mutirao.sql.schema.tables import attempt, job, live
from tests.faults.kit.histories import Attempt, histories, miscounts
from tests.faults.kit.promises import Wrong, finished_twice, lost
from tests.faults.kit.reading import AWAY, Reader, count_of
from tests.faults.ordeal import app, executions, promises
from tests.faults.ordeal.findings import Findings
from tests.faults.ordeal.journal import Journal
from tests.faults.ordeal.producer import Producer

IN_TABLES = (
    lost,
    finished_twice,
    promises.died,
    promises.effects_twice,
    promises.limits_exceeded,
    promises.keys_shared,
    promises.ticks,
)


class Inspector:
    """Asks whether everything is as promised.

    `trusted`: whether the times in the tables are right, which they are not where workers write
    them and their clocks are wrong. `looks` counts what was asked, `put_off` what could not be.
    """

    def __init__(
        self,
        reader: Reader,
        journal: Journal,
        producer: Producer,
        findings: Findings,
        *,
        trusted: bool,
    ) -> None:
        self._reader, self._journal, self._producer = reader, journal, producer
        self._findings, self._trusted = findings, trusted
        self._confirmed = 0
        self._lock = threading.Lock()
        self.looks = self.put_off = 0

    def look(self) -> bool:
        """Check everything that holds at any moment; False if the database cannot be read."""
        with self._lock:
            return self._look()

    def look_back(self) -> None:
        """Check what holds in the end, when nobody works any more."""
        self._confirmed = 0
        self.look()
        self._journal.read()
        with self._reader.snapshot() as connection:
            for id, attempts in histories(connection).items():
                for flaw in miscounts([each for each in attempts if not _redundant(each)]):
                    self._findings.add(f"job {id} {flaw}")
            self._add(self._never_ran(connection))
            held = select(live.c.id).where(live.c.worker.is_not(None))
            if ids := connection.scalars(held).all():
                self._findings.add(f"{len(ids)} jobs are held, and nobody works: {ids[:10]}")

    def counts(self) -> tuple[int, Counter[str], int]:
        """Return how many jobs, attempts by outcome, and effects there are."""
        with self._reader.snapshot() as connection:
            jobs = count_of(connection, job)
            by_outcome = select(attempt.c.outcome, func.count()).group_by(attempt.c.outcome)
            outcomes: Counter[str] = Counter()
            outcomes.update({row[0]: row[1] for row in connection.execute(by_outcome)})
            effects = count_of(connection, app.effects)
        return jobs, outcomes, effects

    def _look(self) -> bool:
        self._journal.read()
        noted = self._journal.all()
        acknowledged = self._producer.acknowledged(self._confirmed)
        try:
            with self._reader.snapshot() as connection:
                self._add(promises.missing(connection, acknowledged))
                for promise in IN_TABLES:
                    self._add(promise(connection))
                self._add(executions.without_attempt(connection, noted))
        except AWAY:
            self.put_off += 1
            return False
        self._confirmed += len(acknowledged)
        self.looks += 1
        self._check_noted()
        return True

    def _check_noted(self) -> None:
        noted, trusted = self._journal.all(), self._trusted
        self._add(executions.too_many_at_once(noted, trusted=trusted))
        self._add(executions.keys_out_of_turn(noted, trusted=trusted))
        self._add(executions.run_again(noted))
        for id, run in sorted(self._journal.repeated):
            self._findings.add(f"run {run} of job {id} was executed twice")

    def _never_ran(self, connection: Connection) -> Wrong:
        columns = attempt.c["job", "run"]
        succeeded = attempt.c.outcome == str(OutcomeKind.SUCCEEDED)
        for id, run in connection.execute(select(*columns).where(succeeded)):
            execution = self._journal.executions.get((id, run))
            # One that was killed between its commit and its note has ended in the tables only.
            killed = execution is not None and execution.task in app.TRANSACTIONAL
            if execution is None or (execution.ended is None and not killed):
                yield ("never", id, run), f"job {id} succeeded in run {run}, which never ran"

    def _add(self, wrong: Iterable[tuple[object, str]]) -> None:
        for about, text in wrong:
            self._findings.add(text, about)


def _redundant(each: Attempt) -> bool:
    """Whether this is no attempt, but says that another job has taken the place of this one."""
    return each.outcome is OutcomeKind.CANCELLED and each.worker is None
