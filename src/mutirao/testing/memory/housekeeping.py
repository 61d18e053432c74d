"""The liveness of workers, the leases of duties, rescue and prune."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from mutirao.job import Beat, NewWorker, OutcomeKind
from mutirao.testing.memory import graphs, limits
from mutirao.testing.memory.keys import forget
from mutirao.testing.memory.tables import Duty, Live, Tables, Worker, attempt_of


def register(tables: Tables, new: NewWorker, expiry: float, now: datetime) -> int:
    """Add a worker."""
    id = next(tables.worker_ids)
    tables.workers[id] = Worker(
        id=id,
        name=new.name,
        host=new.host,
        pid=new.pid,
        queues=new.queues,
        concurrency=new.concurrency,
        version=new.version,
        started_at=now,
        beat_at=now,
        expires_at=now + timedelta(seconds=expiry),
    )
    return id


def beat(
    tables: Tables, worker: int, expiry: float, stuck: int, late: float, now: datetime
) -> Beat:
    """Prolong a worker's life, if it still has one."""
    known = tables.workers.get(worker)
    if known is None:
        return Beat(False, ())
    known.beat_at, known.stuck, known.late = now, stuck, late
    known.expires_at = now + timedelta(seconds=expiry)
    cancelled = ((job.id, job.run) for job in tables.held_by(worker) if job.cancel)
    return Beat(True, tuple(cancelled))


def retire(tables: Tables, worker: int, now: datetime) -> None:
    """Remove a worker; its jobs wait again as if it had never taken them."""
    tables.workers.pop(worker, None)
    for job in tables.held_by(worker):
        job.wait(counted=False)
    limits.mend(tables, now)


def lease(tables: Tables, duty: str, worker: int, ttl: float, every: float, now: datetime) -> bool:
    """Give a duty to a worker, unless it is another's or too soon."""
    last = tables.duties.get(duty)
    if last is not None:
        another_holds_it = last.worker != worker and now < last.expires_at
        if another_holds_it or now < last.taken_at + timedelta(seconds=every):
            return False
    tables.duties[duty] = Duty(worker, now, now + timedelta(seconds=ttl))
    return True


def rescue(tables: Tables, now: datetime) -> list[tuple[int, int]]:
    """Remove expired workers; their jobs wait again under a new run."""
    rescued = []
    expired = [worker.id for worker in tables.workers.values() if worker.expires_at <= now]
    for worker in expired:
        del tables.workers[worker]
        rescued += [_lose(tables, job, now) for job in tables.held_by(worker)]
    limits.mend(tables, now)
    return rescued


def lose(tables: Tables, jobs: Sequence[tuple[int, int]], now: datetime) -> set[int]:
    """Make jobs wait again whose runs were lost."""
    known = ((tables.live.get(id), run) for id, run in jobs)
    held = [job for job, run in known if job is not None and job.held(run)]
    lost = {_lose(tables, job, now)[0] for job in held}
    limits.mend(tables, now)
    return lost


def _lose(tables: Tables, job: Live, now: datetime) -> tuple[int, int]:
    error = f"the heartbeat of worker {job.worker} stopped"
    lost = attempt_of(job, OutcomeKind.LOST, now, error_type="WorkerLost", error=error)
    tables.attempts[job.id].append(lost)
    job.run += 1
    job.lost += 1
    job.wait()
    return job.id, job.run


def prune(tables: Tables, outcome: OutcomeKind, before: float, limit: int, now: datetime) -> int:
    """Forget jobs that ended with `outcome` long enough ago, oldest first."""
    if outcome is OutcomeKind.SUCCEEDED:
        graphs.expire(tables, now)
    horizon = now - timedelta(seconds=before)
    endings = ((tables.ending(id), id) for id in tables.asked)
    old = sorted(
        (ending.finished_at, id)
        for ending, id in endings
        if ending is not None
        and ending.outcome == outcome
        and ending.finished_at < horizon
        and not graphs.unfinished(tables, id)
    )
    for _, id in old[:limit]:
        del tables.asked[id], tables.attempts[id]
    forget(tables, [id for _, id in old[:limit]])
    graphs.forget(tables, {id for _, id in old[:limit]})
    return len(old[:limit])
