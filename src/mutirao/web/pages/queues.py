"""Queues: what waits in each, for how long, and whether it is paused."""

from collections import Counter
from dataclasses import dataclass, field

from starlette.responses import Response

from mutirao.model.jobs.job import JobState
from mutirao.model.reading.figures import QueueFigure
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall


@dataclass(slots=True)
class Queue:
    """A queue: its jobs by state, the seconds that the oldest ready one waits, and its waits.

    `at_least`: whether there are more jobs than were counted.
    """

    name: str
    jobs: Counter[str] = field(default_factory=Counter)
    oldest: float | None = None
    at_least: bool = False
    paused: bool = False
    p50: float | None = None
    p95: float | None = None
    served_by: int = 0


async def figures_of(call: PageCall) -> list[QueueFigure]:
    """Return how many jobs of each queue are in each state."""
    return [*await call.site.readings.get("figures", call.client.reading.afigures)]


async def queues_of(call: PageCall) -> list[Queue]:
    """Return all queues that have jobs, a worker of their own or a pause, by name."""
    readings, client = call.site.readings, call.client
    found: dict[str, Queue] = {}
    for each in await figures_of(call):
        queue = found.setdefault(each.queue, Queue(each.queue))
        queue.jobs[each.state] += each.jobs
        queue.at_least = queue.at_least or each.at_least
        if each.state is JobState.READY and each.oldest is not None:
            queue.oldest = max(0.0, (call.now - each.oldest).total_seconds())
    for name in await readings.get("paused", client.limits.apaused_queues):
        found.setdefault(name, Queue(name)).paused = True
    for worker in await readings.get("workers", client.aworkers):
        for name in worker.queues or () if worker.alive else ():
            found.setdefault(name, Queue(name))
    for wait in await readings.get("waits", client.reading.awaits, 10):
        if wait.queue in found:
            found[wait.queue].p50, found[wait.queue].p95 = wait.p50, wait.p95
    for queue in found.values():
        workers = await readings.get("workers", client.aworkers)
        queue.served_by = sum(each.alive and each.serves(queue.name) for each in workers)
    return [found[name] for name in sorted(found)]


async def show(call: PageCall) -> Response:
    """Show all queues."""
    queues = await queues_of(call)
    return call.page("queues.html", queues=queues, age=call.site.readings.age("figures"))


PAGE = SitePage(path="/queues", name="queues", show=show)
