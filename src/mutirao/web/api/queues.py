"""Queues: how many jobs of each state they have, whether they are paused, and the figures of all.

Each count is made once for all requests within some seconds, as for the pages.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from mutirao.model.audit.actions import About
from mutirao.model.jobs.job import JobState
from mutirao.model.reading.figures import QueueFigure
from mutirao.web.access import Permission
from mutirao.web.api.call import ApiCall
from mutirao.web.api.operation import Answered, Operation


class QueueAnswer(msgspec.Struct, kw_only=True):
    """A queue.

    `jobs`: their number by state; `at_least`: there may be more. `oldest_ready_at`: since when the
    oldest job waits that is due.
    """

    name: str
    paused: bool
    jobs: dict[JobState, int]
    at_least: bool
    oldest_ready_at: datetime | None


class QueueList(msgspec.Struct, kw_only=True):
    """Queues that have jobs, a pause, or a worker of their own, by name."""

    queues: list[QueueAnswer]


class Workforce(msgspec.Struct, kw_only=True):
    """The workers of all queues. `expired`: those that have given no sign of life in time."""

    alive: int
    expired: int
    running: int
    slots: int


class Statistics(msgspec.Struct, kw_only=True):
    """The waiting and running work, and the workers that do it."""

    jobs: dict[JobState, int]
    at_least: bool
    queues: list[QueueAnswer]
    workers: Workforce


class PauseAnswer(msgspec.Struct, kw_only=True):
    """Whether something is paused."""

    name: str
    paused: bool


@dataclass(slots=True)
class _QueueNumbers:
    jobs: dict[JobState, int] = field(default_factory=dict)
    oldest: datetime | None = None
    at_least: bool = False


async def list_queues(call: ApiCall) -> Answered:
    """Answer all queues."""
    return Answered(QueueList(queues=await _queues(call)))


async def statistics(call: ApiCall) -> Answered:
    """Answer the figures of all queues and workers."""
    queues = await _queues(call)
    workers = await call.site.readings.get("workers", call.client.aworkers)
    totals = {state: sum(each.jobs[state] for each in queues) for state in JobState}
    alive = [each for each in workers if each.alive]
    return Answered(
        Statistics(
            jobs=totals,
            at_least=any(each.at_least for each in queues),
            queues=queues,
            workers=Workforce(
                alive=len(alive),
                expired=len(workers) - len(alive),
                running=sum(each.running for each in alive),
                slots=sum(each.concurrency for each in alive),
            ),
        )
    )


async def pause(call: ApiCall) -> Answered:
    """Pause a queue."""
    name = call.name()
    about = About("pause", "queue", name)
    await call.noted(about, lambda: call.client.limits.apause(queue=name))
    return Answered(PauseAnswer(name=name, paused=True))


async def resume(call: ApiCall) -> Answered:
    """Resume a queue."""
    name = call.name()
    about = About("resume", "queue", name)
    await call.noted(about, lambda: call.client.limits.aresume(queue=name))
    return Answered(PauseAnswer(name=name, paused=False))


async def _queues(call: ApiCall) -> list[QueueAnswer]:
    readings, client = call.site.readings, call.client
    counted = _by_queue(await readings.get("figures", client.reading.afigures))
    paused = await readings.get("paused", client.limits.apaused_queues)
    workers = await readings.get("workers", client.aworkers)
    served = {name for each in workers if each.alive for name in each.queues or ()}
    return [
        QueueAnswer(
            name=name,
            paused=name in paused,
            jobs={state: its.jobs.get(state, 0) for state in JobState},
            at_least=its.at_least,
            oldest_ready_at=its.oldest,
        )
        for name in sorted({*counted, *paused, *served})
        for its in (counted.get(name, _QueueNumbers()),)
    ]


def _by_queue(figures: Iterable[QueueFigure]) -> dict[str, _QueueNumbers]:
    found: dict[str, _QueueNumbers] = defaultdict(_QueueNumbers)
    for each in figures:
        its = found[each.queue]
        its.jobs[each.state] = each.jobs
        its.at_least = its.at_least or each.at_least
        if each.state is JobState.READY and each.oldest is not None:
            its.oldest = each.oldest.astimezone(UTC)
    return found


OPERATIONS = (
    Operation(
        name="statistics", method="GET", path="/statistics", role=Permission.READ, run=statistics,
        does="Count jobs by state and queue, and workers.", answer=Statistics, tagged=True,
    ),
    Operation(
        name="list_queues", method="GET", path="/queues", role=Permission.READ, run=list_queues,
        does="List the queues.", answer=QueueList, tagged=True,
    ),
    Operation(
        name="pause_queue", method="POST", path="/queues/{name}/pause",
        role=Permission.ADMIN, run=pause,
        does="Pause a queue: none of its jobs start any more.", answer=PauseAnswer,
    ),
    Operation(
        name="resume_queue", method="POST", path="/queues/{name}/resume", role=Permission.ADMIN,
        run=resume, does="Resume a queue.", answer=PauseAnswer,
        refusals={404: "The queue is not paused."},
    ),
)  # fmt: skip
