"""Jobs: those that a filter finds, a page at a time, and one with all its attempts.

Secrets are blanked by the rule of the pages; what the access does not show is left out, and
`redacted` says so.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mutirao.errors import UnknownJob
from mutirao.model.blanking import LONGEST_TEXT, MOST_CHARACTERS, MOST_ITEMS
from mutirao.model.filters.filter import MAX_TEXT
from mutirao.model.jobs.job import JobState, OutcomeKind
from mutirao.model.jobs.records import AttemptRecord, JobRecord
from mutirao.model.reading.standing import Reason
from mutirao.web.access import Permission
from mutirao.web.api.call import ApiCall
from mutirao.web.api.operation import Answered, Operation
from mutirao.web.api.values import IdText, copied, due, id_text
from mutirao.web.reasons import is_hidden
from mutirao.web.showing import CUT

MOST_JOBS, MOST_COUNTED = 100, 100_000
LONGEST_ERROR = 1_000  # characters, in a list
LIST_ITEMS, LIST_CHARACTERS = 500, 10_000  # of each value that are shown, in a list

FilterText = Annotated[
    str,
    Meta(
        max_length=MAX_TEXT, description="A filter, such as `state:dead queue:mail`; see Filters."
    ),
]
CursorText = Annotated[str, Meta(max_length=100, description="`next` of the page before.")]


class JobAnswer(msgspec.Struct, kw_only=True):
    """A job. `run_at` is null while it waits for another job.

    `redacted`: whether arguments, metadata, results, the key and texts of errors are left out, as
    the caller may not see them. `graph`, `redrive_of` and `on_dead_of` are null to a caller
    that sees only some jobs.
    """

    id: IdText
    task: str
    queue: str
    priority: int
    state: JobState
    attempt: int
    max_attempts: int | None
    timeout: float | None
    run_at: datetime | None
    enqueued_at: datetime
    expires_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: IdText | None
    args: dict[str, Any] | None
    metadata: dict[str, Any] | None
    key: str | None
    tags: list[str]
    tenant: str | None
    group: str | None
    error_type: str | None
    error: str | None
    graph: IdText | None
    stage: str | None
    redrive_of: IdText | None
    on_dead_of: IdText | None
    traceparent: str | None
    progress: float | None
    progress_of: float | None
    progress_note: str | None
    redacted: bool


class AttemptAnswer(msgspec.Struct, kw_only=True):
    """One execution of a job. `status`: of the answer, if it sent a webhook."""

    attempt: int
    run: int
    worker: IdText | None
    outcome: OutcomeKind
    started_at: datetime
    finished_at: datetime
    error_type: str | None
    error: str | None
    status: int | None


class JobWithAttempts(JobAnswer, kw_only=True):
    """A job with all its attempts, oldest first, and its result, if one is kept."""

    attempts: list[AttemptAnswer]
    result: Any
    payload: Any


class JobPage(msgspec.Struct, kw_only=True):
    """Some jobs, newest first.

    `next`: the cursor of those that follow; null: there are none. `searched_all` false: many jobs
    were looked at and few fit, so it stopped; ask on with `next`. Errors are cut to 1,000
    characters here.
    """

    jobs: list[JobAnswer]
    next: str | None
    searched_all: bool


class Count(msgspec.Struct, kw_only=True):
    """How many jobs a filter finds. `at_least`: there may be more, as counting stopped."""

    jobs: int
    at_least: bool


class Why(msgspec.Struct, kw_only=True):
    """A reason why a job is not running: its kind, for programs, and in English."""

    kind: str
    text: str


class ReasonList(msgspec.Struct, kw_only=True):
    """Why a job is not running, what decides most first."""

    reasons: list[Why]


class JobsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which jobs, and how many."""

    filter: FilterText = ""
    cursor: CursorText = ""
    size: Annotated[int, Meta(ge=1, le=MOST_JOBS, description="The most jobs of a page.")] = 50


class CountQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which jobs are counted, and how far."""

    filter: FilterText = ""
    most: Annotated[int, Meta(ge=1, le=MOST_COUNTED, description="Count no further.")] = 10_000


async def list_jobs(call: ApiCall) -> Answered:
    """Answer a page of the jobs that a filter finds."""
    query: JobsQuery = call.query
    page = await call.client.reading.asearch(
        call.filter(query.filter), cursor=query.cursor or None, size=query.size
    )
    jobs = [job_of(call, each) for each in page.jobs]
    return Answered(JobPage(jobs=jobs, next=page.next, searched_all=page.searched_all))


async def count_jobs(call: ApiCall) -> Answered:
    """Answer how many jobs a filter finds."""
    query: CountQuery = call.query
    counted = await call.client.reading.ahow_many(call.filter(query.filter), most=query.most)
    return Answered(copied(Count, counted))


async def explain_job(call: ApiCall) -> Answered:
    """Answer why a job is not running, if the caller may see it."""
    id = call.id()
    await _check_visible(call, id)
    found = await call.client.reading.awhy(id)
    told = [Why(kind=str(each.kind), text=_reason(call, each)) for each in found]
    return Answered(ReasonList(reasons=told))


def _reason(call: ApiCall, each: Reason) -> str:
    return call.site.blanking.text(each.brief if is_hidden(each, call.access) else each.text)


async def show_job(call: ApiCall) -> Answered:
    """Answer a job with its attempts, if the caller may see it."""
    id = call.id()
    await _check_visible(call, id)
    job = await call.client.ajob(id)
    shown = _Shown(call)
    return Answered(
        copied(
            JobWithAttempts,
            job,
            **_fields(shown, job),
            attempts=[_attempt(shown, each) for each in job.attempts],
            result=shown.value(job.result),
            payload=shown.value(job.payload),
        )
    )


async def _check_visible(call: ApiCall, id: int) -> None:
    """Raise UnknownJob if there is no such job that the caller may see."""
    if call.access.only:
        visible = replace(call.filter("").at(call.now, limit=1), ids=(id,))
        if not await call.client.store.jobs(visible):
            raise UnknownJob(f"there is no job {id} that you may see")


def job_of(call: ApiCall, job: JobRecord) -> JobAnswer:
    """Return a job of a list as the caller may see it; a long error is cut."""
    fields = _fields(_Shown(call, LIST_ITEMS, LIST_CHARACTERS), job)
    error = fields.pop("error")
    if error is not None and len(error) > LONGEST_ERROR:
        error = error[:LONGEST_ERROR] + CUT
    return copied(JobAnswer, job, **fields, error=error)


class _Shown:
    """What the caller may see of a job's data."""

    def __init__(
        self, call: ApiCall, items: int = MOST_ITEMS, characters: int = MOST_CHARACTERS
    ) -> None:
        self.contents, self.blanking = call.access.contents, call.site.blanking
        self.some = bool(call.access.only)
        self.most = {"items": items, "characters": characters}

    def value(self, given: Any) -> Any:
        return self.blanking.value(given, **self.most) if self.contents else None

    def mapping(self, given: Mapping[str, Any]) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.value(dict(given))
        return found

    def text(self, given: str | None) -> str | None:
        if not self.contents or given is None:
            return None
        return self.blanking.text(given, min(LONGEST_TEXT, self.most["characters"]))


def _fields(shown: _Shown, job: JobRecord) -> dict[str, Any]:
    """Return the fields that are not answered unchanged."""
    return {
        **{name: id_text(getattr(job, name)) for name in _IDS},
        **{name: None if shown.some else id_text(getattr(job, name)) for name in _OTHERS},
        "run_at": due(job.run_at),
        "args": shown.mapping(job.args),
        "metadata": shown.mapping(job.metadata),
        "key": shown.text(job.key),
        "error": shown.text(job.error),
        "progress_note": shown.text(job.progress_note),
        "redacted": not shown.contents,
    }


_IDS = ("id", "worker")
_OTHERS = ("graph", "redrive_of", "on_dead_of")  # which name jobs that are perhaps not to be seen


def _attempt(shown: _Shown, each: AttemptRecord) -> AttemptAnswer:
    return copied(AttemptAnswer, each, worker=id_text(each.worker), error=shown.text(each.error))


OPERATIONS = (
    Operation(
        name="list_jobs", method="GET", path="/jobs", does="List jobs, newest first.",
        role=Permission.READ, run=list_jobs, query=JobsQuery, answer=JobPage, whole=False,
    ),
    Operation(
        name="count_jobs", method="GET", path="/counts", does="Count jobs, up to a number.",
        role=Permission.READ, run=count_jobs, query=CountQuery, answer=Count,
        whole=False, tagged=True,
    ),
    Operation(
        name="explain_job", method="GET", path="/jobs/{id}/reasons", role=Permission.READ,
        run=explain_job, answer=ReasonList, whole=False, does="Say why a job is not running.",
        refusals={404: "There is no such job."},
    ),
    Operation(
        name="show_job", method="GET", path="/jobs/{id}", does="Show a job with all its attempts.",
        role=Permission.READ, run=show_job, answer=JobWithAttempts, whole=False,
        refusals={404: "There is no such job."},
    ),
)  # fmt: skip
