"""A job: what was enqueued, what has happened, why it is not running, and possible commands."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from starlette.responses import Response

from mutirao.errors import UnknownGraph, UnknownJob
from mutirao.model.blanking import BLANK
from mutirao.model.filters.filter import parse
from mutirao.model.jobs.job import FINAL_STATES, JobState
from mutirao.model.jobs.records import AttemptRecord, GraphRecord, JobRecord
from mutirao.web.drawing.charts import Span, spans
from mutirao.web.drawing.graph_layout import laid_out
from mutirao.web.forms import id_in
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall
from mutirao.web.showing import block, pretty

ATTEMPTS_SHOWN, STEPS_SHOWN = 50, 100


@dataclass(frozen=True, slots=True)
class Execution:
    """An attempt as the page shows it: its place on the line, and its error."""

    attempt: AttemptRecord
    span: Span
    error: tuple[str, int] | None
    line: str


async def show(call: PageCall) -> Response:
    """Show a job, if the caller may see it."""
    job = await _seen(call, id_in(call.request.path_params["id"]))
    contents, blanking = call.access.contents, call.site.blanking

    def shown(value: Any) -> tuple[str, int]:
        return block(pretty(blanking.value(value)) if contents else BLANK)

    stands = job.state in FINAL_STATES or job.state is JobState.RUNNING
    graph = await _graph(call, job.graph)
    reasons = () if stands else await call.client.reading.awhy(job.id)
    return call.page(
        "job.html",
        job=job,
        args=shown(job.args),
        result=shown(job.result) if job.result is not None else None,
        payload=shown(job.payload) if job.payload is not None else None,
        metadata=shown(dict(job.metadata)) if job.metadata else None,
        note=blanking.text(job.progress_note or "") if contents else "",
        executions=_executions(call, job),
        left_out=max(0, len(job.attempts) - ATTEMPTS_SHOWN),
        reasons=reasons,
        graph=graph,
        drawing=None if graph is None else laid_out(graph.steps),
        family=await _family(call, job),
        may=_may(call, job),
        again=call.may("act") and contents and not call.access.only,
        known=job.task in call.client.tasks,
        standalone=not call.client.tasks,
    )


async def _seen(call: PageCall, id: int) -> JobRecord:
    """Return a job; raise UnknownJob if there is none that the caller may see."""
    if call.access.only:
        only = replace(parse(call.access.only).at(call.now, limit=1), ids=(id,))
        if not await call.client.store.jobs(only):
            raise UnknownJob(f"There is no job {id} that you may see.")
    return await call.client.ajob(id)


def _executions(call: PageCall, job: JobRecord) -> list[Execution]:
    """Return the newest attempts, the last one first."""
    first, last = job.enqueued_at, _end(call, job)
    newest = job.attempts[-ATTEMPTS_SHOWN:]
    places = spans([(each.started_at, each.finished_at) for each in newest], first, last)
    made = [
        Execution(each, place, *_error(call, each))
        for each, place in zip(newest, places, strict=True)
    ]
    return made[::-1]


def _end(call: PageCall, job: JobRecord) -> datetime:
    if job.finished_at is not None:
        return job.finished_at
    return max([call.now, *(each.finished_at for each in job.attempts)])


def _error(call: PageCall, attempt: AttemptRecord) -> tuple[tuple[str, int] | None, str]:
    """Return the whole error of an attempt, and its last line, which has its message."""
    if not attempt.error:
        return None, ""
    if not call.access.contents:
        return (BLANK, 0), BLANK
    text = call.site.blanking.text(attempt.error)
    line = text.strip().rpartition("\n")[2]
    name, colon, rest = line.partition(": ")
    again = colon and (attempt.error_type or "").endswith(name)  # it stands before it already
    return block(text), rest if again else line


async def _graph(call: PageCall, id: int | None) -> GraphRecord | None:
    """Return the graph of a job with its first steps; None if it has none, or it was pruned."""
    if id is None or call.access.only:
        return None
    try:
        graph = await call.client.agraph(id)
    except UnknownGraph:
        return None
    return replace(graph, steps=graph.steps[:STEPS_SHOWN])


async def _family(call: PageCall, job: JobRecord) -> list[tuple[str, JobRecord]]:
    """Return the jobs that this one comes from, each with its relation to this one."""
    ids = {job.redrive_of: "redrive_of", job.on_dead_of: "on_dead_of"}
    wanted = tuple(each for each in ids if each is not None)
    if not wanted:
        return []
    only = replace(parse(call.access.only).at(call.now, limit=len(wanted)), ids=wanted)
    return [(ids[each.id], each) for each in await call.client.store.jobs(only)]


def _may(call: PageCall, job: JobRecord) -> tuple[str, ...]:
    """Return the commands that make sense for the job as it is."""
    if not call.may("act"):
        return ()
    if job.state in FINAL_STATES:
        return ("redrive",)
    if job.state is JobState.RUNNING:
        return ("cancel",)
    return (
        ("retry", "change", "cancel") if job.state is not JobState.READY else ("change", "cancel")
    )


PAGE = SitePage(path="/jobs/{id}", name="job", show=show, whole=False, listed=False)
