"""The way of a job through a worker: lanes, claim, settle, release."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from mutirao.errors import WorkerGone
from mutirao.fair import is_fair, once, queue_of, take_turns
from mutirao.job import UNCOUNTED_OUTCOMES, Claim, FairClaim, Lane, LaneHead, Wake
from mutirao.limit import BEGINNING, Claimed, Settled, lowered
from mutirao.outcome import Outcome, Settlement
from mutirao.testing.memory import graphs, limits
from mutirao.testing.memory.tables import Asked, Live, Tables, arguments_of, attempt_of


def lanes(tables: Tables, queues: Collection[str] | None, now: datetime) -> list[LaneHead]:
    """Return the lanes that have waiting jobs, each with its earliest one."""
    heads: dict[tuple[int, str], Live] = {}
    for job in tables.live.values():
        if job.worker is None and (queues is None or queue_of(job.queue) in queues):
            name = job.priority, job.queue
            heads[name] = min(heads.get(name, job), job, key=lambda job: job.place)
    return [
        LaneHead(Lane(queue, priority, job.run_at, job.id), (job.run_at - now).total_seconds())
        for (priority, queue), job in sorted(heads.items(), key=lambda item: item[0])
    ]


def claim(
    tables: Tables,
    worker: int,
    lanes: Sequence[Lane],
    limit: int,
    without: Collection[str],
    now: datetime,
) -> list[Claim]:
    """Take due jobs for a worker."""
    if worker not in tables.workers:
        raise WorkerGone(f"worker {worker} is not registered (any more)")
    served = once(lowered(lanes, limits.pace(tables, now)))
    lanes, claims = limits.unblocked(tables, served), Claimed()
    called = True
    while called:
        called = False
        for lane in lanes:
            due = _due(tables, lane, without, now)
            fit, more = limits.let_in(tables, due, limit - len(claims), now)
            claims += [take(tables, job, worker, now) for job in fit]
            if fit and is_fair(lane.queue):
                tables.served[lane.queue] = fit[-1].turn
            called = called or more
        lanes = [lane._replace(run_at=BEGINNING, id=0) for lane in lanes]
    if tables.limits.written and len(claims) >= limit:
        claims.woken = tuple(Wake(lane.queue, lane.priority, BEGINNING) for lane in lanes)
    return claims


def take(tables: Tables, job: Live, worker: int, now: datetime) -> Claim:
    """Give a waiting job to a worker."""
    job.run += 1
    job.attempt += 1
    job.worker, job.claimed_at = worker, now
    return graphs.with_results(tables, _claim_of(tables.asked[job.id], job))


def _due(tables: Tables, lane: Lane, without: Collection[str], now: datetime) -> list[Live]:
    due = [
        job
        for job in tables.live.values()
        if job.worker is None
        and job.queue == lane.queue
        and job.run_at <= now
        and job.task not in without
    ]
    if is_fair(lane.queue):
        return _in_turn(due, tables.served.get(lane.queue, ""))
    within = [
        job for job in due if job.priority == lane.priority and (lane.run_at, lane.id) <= job.place
    ]
    return sorted(within, key=lambda job: job.place)


def _in_turn(due: list[Live], served: str) -> list[Live]:
    """Return one of each value, beginning after the one that was served last, then the next."""
    lines: dict[str, list[Live]] = {}
    for job in sorted(due, key=lambda job: (job.turn <= served, job.turn, job.priority, job.place)):
        lines.setdefault(job.turn, []).append(job)
    return take_turns(map(iter, lines.values()), len(due))


def _claim_of(asked: Asked, job: Live) -> Claim:
    new = asked.new
    kind = FairClaim if is_fair(job.queue) else Claim
    return kind(
        id=job.id,
        run=job.run,
        attempt=job.attempt,
        task=new.task,
        args=new.args,
        queue=new.queue,
        priority=new.priority,
        run_at=job.run_at,
        enqueued_at=asked.enqueued_at,
        max_attempts=new.max_attempts,
        timeout=new.timeout,
        key=new.key,
        tags=json.dumps(new.tags) if new.tags else None,
        metadata=json.dumps(new.metadata) if new.metadata else None,
        traceparent=new.traceparent,
        redrive_of=new.redrive_of,
        on_dead_of=new.on_dead_of,
        cancel=job.cancel,
        lost=job.lost,
        cut_off=job.cut_off,
    )


def settle(tables: Tables, settlements: Sequence[Settlement], now: datetime) -> Settled:
    """Write the outcomes that are not stale, and their follow-ups."""
    for settlement in settlements:
        if settlement.follow_up is not None:
            arguments_of(settlement.follow_up)  # refused before anything is written
    settled = Settled(each.id for each in settlements if _settle(tables, each, now))
    settled.woken = limits.mend(tables, now)
    return settled


def _settle(tables: Tables, settlement: Settlement, now: datetime) -> bool:
    job, outcome = tables.live.get(settlement.id), settlement.outcome
    if job is None or not job.held(settlement.run):
        return False
    attempt = attempt_of(
        job,
        outcome.kind,
        now,
        started_at=now - timedelta(seconds=settlement.started_ago),
        finished_at=now - timedelta(seconds=settlement.finished_ago),
        error_type=outcome.error_type,
        error=outcome.error,
    )
    if outcome.kind.final:
        graphs.finish(tables, job, attempt, now, outcome.result)
    else:
        tables.attempts[job.id].append(attempt)
        counted = outcome.kind not in UNCOUNTED_OUTCOMES
        job.wait(run_at=_next_run(job, outcome, now), counted=counted)
        job.count(outcome)
    if settlement.follow_up is not None:
        tables.write(settlement.follow_up, now)
    return True


def _next_run(job: Live, outcome: Outcome, now: datetime) -> datetime:
    if job.cancel:
        return now
    return outcome.at or now + timedelta(seconds=outcome.after or 0)


def release(tables: Tables, jobs: Sequence[tuple[int, int]], now: datetime) -> set[int]:
    """Give back jobs that were never started."""
    released = set()
    for id, run in jobs:
        job = tables.live.get(id)
        if job is not None and job.held(run):
            job.wait(counted=False)
            released.add(id)
    limits.mend(tables, now)
    return released
