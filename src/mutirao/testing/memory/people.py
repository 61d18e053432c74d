"""What people and dashboards ask for: records, counts and commands."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime
from typing import TypedDict

from mutirao.errors import UnknownJob
from mutirao.job import JobState, OutcomeKind
from mutirao.records import JobFilter, JobRecord, QueueCount, WorkerRecord
from mutirao.testing.memory import graphs, limits
from mutirao.testing.memory.tables import Asked, Live, Tables, attempt_of
from mutirao.unique import PARKED


class _Standing(TypedDict):
    """Where a job stands: the part of its record that is not what was asked."""

    state: JobState
    attempt: int
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: int | None
    error_type: str | None
    error: str | None


def job(tables: Tables, id: int, now: datetime) -> JobRecord:
    """Return one job with all its attempts."""
    if id not in tables.asked:
        raise UnknownJob(f"There is no job {id}; it was never enqueued here, or it was pruned.")
    return replace(_record(tables, tables.asked[id], now), attempts=tuple(tables.attempts[id]))


def jobs(tables: Tables, which: JobFilter, now: datetime) -> list[JobRecord]:
    """List the jobs that are meant, newest first."""
    return list(_matching(tables, which, now))[: which.limit]


def counts(tables: Tables, now: datetime) -> list[QueueCount]:
    """Count the jobs of every queue by state."""
    since: dict[tuple[str, JobState], list[datetime]] = {}
    for record in _matching(tables, JobFilter(), now):
        since.setdefault((record.queue, record.state), []).append(_in_state_since(record))
    return [
        QueueCount(
            queue=queue,
            state=state,
            jobs=len(moments),
            oldest_age=(now - min(moments)).total_seconds(),
        )
        for (queue, state), moments in sorted(since.items())
    ]


def workers(tables: Tables, now: datetime) -> list[WorkerRecord]:
    """List the registered workers."""
    return [
        WorkerRecord(
            id=worker.id,
            name=worker.name,
            host=worker.host,
            pid=worker.pid,
            queues=worker.queues,
            concurrency=worker.concurrency,
            version=worker.version,
            started_at=worker.started_at,
            beat_at=worker.beat_at,
            expires_at=worker.expires_at,
            alive=now < worker.expires_at,
            listening=worker.listening,
            stuck=worker.stuck,
            late=worker.late,
            running=len(tables.held_by(worker.id)),
        )
        for worker in tables.workers.values()
    ]


def cancel(tables: Tables, which: JobFilter, now: datetime) -> list[int]:
    """Finish waiting jobs and flag running ones."""
    meant = _live(tables, which, now)[: which.limit]
    for job in meant:
        if job.worker is not None:
            job.cancel = True
        elif job.id in tables.live:  # not undone with its graph already
            job.run += 1  # its last run may have a row in history already
            graphs.finish(tables, job, attempt_of(job, OutcomeKind.CANCELLED, now), now)
    limits.mend(tables, now)
    return [job.id for job in meant]


def hurry(tables: Tables, which: JobFilter, now: datetime) -> list[int]:
    """Make waiting jobs due; one that is due already, or waits for another, keeps its place."""
    found = [job for job in _live(tables, which, now) if job.worker is None][: which.limit]
    meant = [
        job for job in found if job.run_at != PARKED and tables.limits.parked_at(job.id) is None
    ]
    for job in meant:
        job.run_at = min(job.run_at, now)
    return [job.id for job in meant]


def redrive(tables: Tables, which: JobFilter, now: datetime) -> list[int]:
    """Enqueue dead jobs again; one that was already must be asked for by its id."""
    redriven = {asked.new.redrive_of for asked in tables.asked.values()}
    meant = [
        record.id
        for record in _matching(tables, which, now)
        if record.state == JobState.DEAD and (which.ids is not None or record.id not in redriven)
    ]
    again = [
        replace(tables.asked[id].new, run_at=None, delay=None, redrive_of=id)
        for id in meant[: which.limit]
    ]
    ids = [tables.write(new, now) for new in again]
    for new, id in zip(again, ids, strict=True):
        graphs.redriven(tables, new.redrive_of or 0, id)
    return ids


def unserved(tables: Tables, known: Collection[str]) -> dict[str, int]:
    """Count the waiting jobs of tasks nobody knows."""
    found: dict[str, int] = {}
    for job in tables.live.values():
        if job.worker is None and job.task not in known:
            found[job.task] = found.get(job.task, 0) + 1
    return found


def _matching(tables: Tables, which: JobFilter, now: datetime) -> Iterator[JobRecord]:
    for asked in reversed(tables.asked.values()):
        record = _record(tables, asked, now)
        if _means(which, record) and which.fingerprint in (None, asked.new.fingerprint):
            yield record


def _live(tables: Tables, which: JobFilter, now: datetime) -> list[Live]:
    records = _matching(tables, which, now)
    return [tables.live[record.id] for record in records if record.id in tables.live]


def _means(which: JobFilter, record: JobRecord) -> bool:
    return (
        (which.ids is None or record.id in which.ids)
        and which.state in (None, record.state)
        and which.graph in (None, record.graph)
        and which.queue in (None, record.queue)
        and which.task in (None, record.task)
        and (which.tag is None or which.tag in record.tags)
        and which.error_type in (None, record.error_type)
        and (which.before is None or record.enqueued_at < which.before)
        and (which.after is None or record.enqueued_at >= which.after)
    )


def _record(tables: Tables, asked: Asked, now: datetime) -> JobRecord:
    new = asked.new
    return JobRecord(
        id=asked.id,
        task=new.task,
        args=dict(asked.args),
        queue=new.queue,
        priority=new.priority,
        enqueued_at=asked.enqueued_at,
        max_attempts=new.max_attempts,
        timeout=new.timeout,
        key=new.key,
        tags=new.tags,
        metadata=dict(new.metadata),
        traceparent=new.traceparent,
        redrive_of=new.redrive_of,
        on_dead_of=new.on_dead_of,
        **_standing(tables, asked, now),
        **graphs.progress_of(tables, asked.id),
    )


def _standing(tables: Tables, asked: Asked, now: datetime) -> _Standing:
    live, history = tables.live.get(asked.id), tables.attempts[asked.id]
    last = history[-1] if history else None
    standing: _Standing = {
        "state": JobState.READY,
        "attempt": last.attempt if last else 0,
        "run_at": asked.run_at,
        "started_at": last.started_at if last else None,
        "finished_at": last.finished_at if last else None,
        "worker": last.worker if last else None,
        "error_type": last.error_type if last else None,
        "error": last.error if last else None,
    }
    if live is None:
        return standing | {"state": JobState(history[-1].outcome.value)}
    return standing | {
        "state": graphs.state_of(tables, live, now),
        "attempt": live.attempt,
        "run_at": (live.run_at == PARKED and tables.limits.parked_at(live.id)) or live.run_at,
        "started_at": live.claimed_at or standing["started_at"],
        "finished_at": None,
        "worker": live.worker,
    }


def _in_state_since(record: JobRecord) -> datetime:
    # What waits for other jobs has no time yet.
    limited = record.state == JobState.BLOCKED and record.run_at != PARKED
    if record.state == JobState.READY or limited:
        return max(record.run_at, record.enqueued_at)
    if record.state in (JobState.SCHEDULED, JobState.BLOCKED):
        return record.enqueued_at
    return record.finished_at or record.started_at or record.enqueued_at
