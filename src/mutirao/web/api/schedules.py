"""Schedules: when each ticks, what its last job came to; pause, resume, and run now."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mutirao.model.audit.actions import About
from mutirao.model.schedules.schedule import (
    MAX_REASON,
    CatchUp,
    Overlap,
    ScheduleOrigin,
    ScheduleRecord,
    ScheduleState,
    ScheduleStatus,
)
from mutirao.web.access import Permission
from mutirao.web.api.call import ApiCall
from mutirao.web.api.operation import PREFIX, Answered, Operation
from mutirao.web.api.queues import PauseAnswer
from mutirao.web.api.values import IdText, copied, id_text


class ScheduleAnswer(msgspec.Struct, kw_only=True):
    """A schedule. `every`, `jitter` and `last_duration` are seconds."""

    name: str
    task: str
    args: dict[str, Any] | None
    queue: str
    cron: str | None
    every: float | None
    timezone: str
    status: ScheduleStatus
    reason: str | None
    next_at: datetime | None
    last_tick: datetime | None
    last_job: IdText | None
    last_state: str | None
    last_duration: float | None
    last_error: str | None
    runs: int
    skipped: int
    catch_up: CatchUp
    overlap: Overlap
    jitter: float
    until: datetime | None
    max_runs: int | None
    pause_after: int | None
    origin: ScheduleOrigin
    in_code: bool | None


class ScheduleList(msgspec.Struct, kw_only=True):
    """All schedules, by name."""

    schedules: list[ScheduleAnswer]


class PauseBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Why it is paused; it is shown with the schedule."""

    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON)] | None = None


class MadeAnswer(msgspec.Struct, kw_only=True):
    """The job that was made."""

    job: IdText


async def list_schedules(call: ApiCall) -> Answered:
    """Answer all schedules."""
    found = await call.site.readings.get("schedules", call.client.schedules.alist)
    return Answered(ScheduleList(schedules=[_schedule(call, each) for each in found]))


async def pause(call: ApiCall) -> Answered:
    """Pause a schedule."""
    body: PauseBody = call.body
    name, schedules = call.name(), call.client.schedules
    about = About("pause", "schedule", name)
    return _state(await call.noted(about, lambda: schedules.apause(name, reason=body.reason)))


async def resume(call: ApiCall) -> Answered:
    """Resume a schedule."""
    name, schedules = call.name(), call.client.schedules
    about = About("resume", "schedule", name)
    return _state(await call.noted(about, lambda: schedules.aresume(name)))


async def run_now(call: ApiCall) -> Answered:
    """Make a job of a schedule at once."""
    name, schedules = call.name(), call.client.schedules
    made = await call.noted(About("run", "schedule", name), lambda: schedules.arun_now(name))
    where = {"location": call.url(f"{PREFIX}/jobs/{made.id}")}
    return Answered(MadeAnswer(job=str(made.id)), 201, where)


def _state(state: ScheduleState) -> Answered:
    return Answered(PauseAnswer(name=state.schedule.name, paused=state.paused))


def _schedule(call: ApiCall, each: ScheduleRecord) -> ScheduleAnswer:
    contents, blanking = call.access.contents, call.site.blanking
    error = each.last_error
    return copied(
        ScheduleAnswer,
        each,
        args=blanking.value(dict(each.args)) if contents else None,
        last_job=id_text(each.last_job),
        last_error=blanking.text(error) if contents and error is not None else None,
    )


_NONE = {404: "There is no such schedule."}

OPERATIONS = (
    Operation(
        name="list_schedules", method="GET", path="/schedules",
        role=Permission.READ, run=list_schedules,
        does="List the schedules.", answer=ScheduleList,
    ),
    Operation(
        name="pause_schedule", method="POST", path="/schedules/{name}/pause", role=Permission.ADMIN,
        run=pause, body=PauseBody, answer=PauseAnswer, refusals=_NONE,
        does="Pause a schedule: it makes no jobs until it is resumed.",
    ),
    Operation(
        name="resume_schedule", method="POST", path="/schedules/{name}/resume",
        role=Permission.ADMIN,
        run=resume, answer=PauseAnswer, refusals=_NONE, does="Resume a schedule.",
    ),
    Operation(
        name="run_schedule", method="POST", path="/schedules/{name}/run", role=Permission.ACT,
        run=run_now, answer=MadeAnswer, statuses=(201,),
        does="Make a job of a schedule at once, in addition to its ticks.",
        refusals={**_NONE, 409: "Its last job is live, and runs may not overlap."},
    ),
)  # fmt: skip
