"""Schedules in the tables: read, and changed by the functions of `mutirao.model.schedule_rules`.

A schedule's row is locked during a decision, and everything else that the decision needs is read
after that, so it sees everything that the previous decision wrote.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

import msgspec
from sqlalchemy import (
    Connection,
    delete,
    exists,
    false,
    func,
    insert,
    literal,
    select,
    union_all,
    update,
)
from sqlalchemy.exc import IntegrityError

from mutirao.errors import WrongState
from mutirao.model.job import FINAL_OUTCOMES, NewJob, OutcomeKind
from mutirao.model.schedule import (
    KEPT_TICKS,
    Agenda,
    Amend,
    Amended,
    CatchUp,
    Overlap,
    Schedule,
    ScheduleFacts,
    ScheduleOrigin,
    ScheduleRecord,
    ScheduleState,
    ScheduleStatus,
    Ticked,
)
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema import views
from mutirao.sql.schema.tables import attempt, live, schedule, tick
from mutirao.sql.statements import fairness

Enqueue = Callable[[Iterable[NewJob], Connection], list[int]]

MOST_DUE = 100  # schedules read at once
_NAMED = ("task", "args", "queue", "priority")  # options of a job that have columns of their own
_TERMS = (
    "cron", "timezone", "catch_up", "catch_up_limit", "overlap", "until", "max_runs",
    "pause_after",
)  # fmt: skip
_STANDS = (
    "origin", "paused", "reason", "forgiven", "awaiting", "next_at", "last_tick", "last_job",
    "runs", "skipped", "created_at", "changed_at", "declared", "declared_at", "declared_by",
)  # fmt: skip


def agenda(conn: Connection, dialect: Dialect, now: datetime | None) -> Agenda:
    """Return the schedules that are due, and the time until the next tick. A single statement."""
    moment = dialect.moment(now).label("now")
    planned = (
        select(schedule.c.name, schedule.c.next_at, false().label("live"), moment)
        .where(schedule.c.next_at.is_not(None), ~schedule.c.paused)
        .order_by(schedule.c.next_at)
        .limit(MOST_DUE)
        .subquery()
    )
    running = _is_live(schedule.c.last_job).label("live")
    awaiting = (
        select(schedule.c.name, schedule.c.next_at, running, moment)
        .where(schedule.c.awaiting, ~schedule.c.paused)
        .limit(MOST_DUE * 10)
        .subquery()
    )
    rows = conn.execute(union_all(select(planned), select(awaiting))).all()
    ahead = [(row.next_at - row.now).total_seconds() for row in rows if row.next_at is not None]
    return Agenda(
        due=tuple(row.name for row in rows if _is_due(row)),
        next_in=min((seconds for seconds in ahead if seconds > 0), default=None),
        awaits=any(row.live for row in rows),
    )


@dataclass(frozen=True, slots=True)
class Amending:
    """A change of one schedule, to be written in one transaction."""

    dialect: Dialect
    enqueue: Enqueue
    name: str
    amend: Amend
    wait: bool
    now: datetime | None

    def write(self, conn: Connection) -> Amended:
        """Lock the schedule, ask `amend` for the change, and write it."""
        while True:
            before = self._hold(conn)
            state, ticks = self.amend(self._facts(conn, before))
            if state is None and before is None:
                return Amended(None)
            if before is None and not self._insert(conn, state):
                continue  # another transaction just created it: decide about that one
            return self._write(conn, before or state, state, self._make(conn, ticks))

    def _write(
        self,
        conn: Connection,
        written: ScheduleState | None,
        state: ScheduleState | None,
        jobs: tuple[int, ...],
    ) -> Amended:
        if state is None:
            _remove(conn, self.name)
            return Amended(None, jobs)
        after = replace(state, last_job=jobs[-1]) if jobs else state
        if after is not written:
            row = _to_row(after)
            conn.execute(update(schedule).where(schedule.c.name == self.name).values(**row))
        return Amended(after, jobs)

    def _hold(self, conn: Connection) -> ScheduleState | None:
        held = select(schedule).where(schedule.c.name == self.name)
        row = conn.execute(held.with_for_update(skip_locked=not self.wait)).first()
        return None if row is None else _to_state(row)

    def _facts(self, conn: Connection, state: ScheduleState | None) -> ScheduleFacts:
        """Read what the decision needs, in another statement, which sees what was committed."""
        last = None if state is None else state.last_job
        ended = select(func.max(attempt.c.finished_at)).where(
            attempt.c.job == last, attempt.c.outcome.in_([str(each) for each in FINAL_OUTCOMES])
        )
        row = conn.execute(
            select(
                self.dialect.moment(self.now).label("now"),
                _is_live(literal(last, schedule.c.last_job.type)).label("live"),
                ended.scalar_subquery().label("ended_at"),
            )
        ).one()
        now, live, ended_at = _in_utc(row.now), bool(row.live), _in_utc(row.ended_at)
        return ScheduleFacts(state, now, live, ended_at, _deaths(conn, state))

    def _insert(self, conn: Connection, state: ScheduleState | None) -> bool:
        if state is None:
            return False
        return self.dialect.write_new(conn, schedule, _to_row(state))

    def _make(self, conn: Connection, ticks: Sequence[Ticked]) -> tuple[int, ...]:
        if not ticks:
            return ()
        jobs = self.enqueue(fairness.known(conn, (each.job for each in ticks)), conn)
        rows = [
            {"schedule": self.name, "job": job, "tick": each.tick}
            for job, each in zip(jobs, ticks, strict=True)
        ]
        try:
            conn.execute(insert(tick), rows)
        except IntegrityError as twice:
            raise WrongState(
                f"a tick of schedule {self.name!r} has its job already, but the schedule has not"
                " gone on; was its row changed by hand? Remove the schedule and put it again"
            ) from twice
        _forget(conn, self.name)
        return tuple(jobs)


def _deaths(conn: Connection, state: ScheduleState | None) -> int:
    """Count the deaths in a row of the schedule's latest jobs that have ended, if that matters."""
    if state is None or state.schedule.pause_after is None:
        return 0
    final = attempt.c.outcome.in_([str(each) for each in FINAL_OUTCOMES])
    outcome = select(attempt.c.outcome).where(attempt.c.job == tick.c.job, final).limit(1)
    ended = conn.scalars(
        select(outcome.scalar_subquery())
        .where(tick.c.schedule == state.schedule.name, tick.c.job > (state.forgiven or 0))
        .order_by(tick.c.job.desc())
    )
    known = [outcome for outcome in ended if outcome is not None]
    return sum(1 for _ in takewhile(lambda outcome: outcome == OutcomeKind.DEAD, known))


def listed(conn: Connection) -> list[ScheduleRecord]:
    """List the schedules by name. A single statement."""
    view = views.schedules
    return [_to_record(row) for row in conn.execute(select(view).order_by(view.c.name))]


def _is_live(job: Any) -> Any:
    return exists().where(live.c.id == job)


def _is_due(row: Any) -> bool:
    if row.next_at is not None:
        return bool(row.next_at <= row.now)
    return not row.live


def _remove(conn: Connection, name: str) -> None:
    conn.execute(delete(tick).where(tick.c.schedule == name))
    conn.execute(delete(schedule).where(schedule.c.name == name))


def _forget(conn: Connection, name: str) -> None:
    """Delete all but the latest jobs of a schedule: older ticks never come again."""
    newest = select(tick.c.job).where(tick.c.schedule == name).order_by(tick.c.job.desc())
    oldest_kept = newest.offset(KEPT_TICKS - 1).limit(1).scalar_subquery()
    conn.execute(delete(tick).where(tick.c.schedule == name, tick.c.job < oldest_kept))


def _to_row(state: ScheduleState) -> dict[str, Any]:
    asked = state.schedule
    row = {name: getattr(asked.job, name) for name in _NAMED}
    row |= {name: getattr(asked, name) for name in _TERMS}
    row |= {name: getattr(state, name) for name in _STANDS}
    row |= {name: str(row[name]) for name in ("catch_up", "overlap", "origin")}
    return row | {
        "name": asked.name,
        "options": msgspec.json.encode(_options(asked.job)).decode(),
        "every": None if asked.every is None else asked.every.total_seconds(),
        "jitter": asked.jitter.total_seconds(),
    }


def _options(job: NewJob) -> dict[str, Any]:
    """Return the options of a job that have no columns."""
    asked = {each.name: getattr(job, each.name) for each in fields(job) if each.compare}
    return {name: value for name, value in asked.items() if value and name not in _NAMED}


def _to_state(row: Any) -> ScheduleState:
    values = {name: _in_utc(value) for name, value in row._asdict().items()}
    options = msgspec.json.decode(values["options"])
    options["tags"] = tuple(options.get("tags", ()))
    job = NewJob(**{name: values[name] for name in _NAMED}, **options)
    every = values["every"]
    asked = Schedule(
        name=values["name"],
        job=job,
        every=None if every is None else timedelta(seconds=every),
        jitter=timedelta(seconds=values["jitter"]),
        **{name: values[name] for name in _TERMS},
    )
    stands = {name: values[name] for name in _STANDS}
    return ScheduleState(schedule=asked, **stands | {"origin": ScheduleOrigin(stands["origin"])})


def _in_utc(value: Any) -> Any:
    """Return a datetime in UTC, where all hours are equal; drivers use the server's time zone."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _to_record(row: Any) -> ScheduleRecord:
    values = row._asdict()
    kinds = {
        "status": ScheduleStatus,
        "catch_up": CatchUp,
        "overlap": Overlap,
        "origin": ScheduleOrigin,
    }
    return ScheduleRecord(**values | {name: kind(values[name]) for name, kind in kinds.items()})
