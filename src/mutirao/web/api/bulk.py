"""Actions on jobs: on those that are named, or on all that a filter finds; and the audit of them.

By a filter, the number that was seen has to be given: if another number matches when the action
begins, nothing is done. It is done in batches; one that takes longer than a second continues after
the answer, which says where its progress is.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mutirao.model import row_json
from mutirao.model.audit.actions import (
    MAX_IDS,
    Action,
    ActionKind,
    ActionState,
    AuditRecord,
)
from mutirao.model.filters.filter import Filter, parse
from mutirao.model.jobs.job import MAX_PRIORITY, MIN_PRIORITY, JobState
from mutirao.model.jobs.records import JobFilter
from mutirao.model.reading.figures import cursor_of, read_cursor
from mutirao.tasks.options import ChangeTerms, change_of
from mutirao.web.access import Access, Permission
from mutirao.web.api.begun_actions import MOST_EXPECTED, Progress, begin, check_expected
from mutirao.web.api.call import ApiCall, UnreadableRequest, acting
from mutirao.web.api.enqueue import Moment, Seconds
from mutirao.web.api.jobs import CursorText, FilterText
from mutirao.web.api.operation import PREFIX, Answered, Operation
from mutirao.web.api.problems import Conflict
from mutirao.web.api.values import Id, IdText, copied, id_of

BATCH = 500  # jobs of a transaction


class NewValues(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The new values of waiting jobs; missing ones stay as they are."""

    priority: Annotated[int, Meta(ge=MIN_PRIORITY, le=MAX_PRIORITY)] | None = None
    queue: str | None = None
    run_at: Moment | None = None
    delay: Seconds | None = None
    max_attempts: int | None = None


class ActionBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An action, and its jobs: `ids`, or `filter` with the number `expected`."""

    action: ActionKind
    ids: Annotated[list[Id], Meta(min_length=1, max_length=MAX_IDS)] | None = None
    filter: FilterText | None = None
    expected: Annotated[int, Meta(ge=0, le=MOST_EXPECTED)] | None = None
    change: NewValues | None = None


class AboutThing(msgspec.Struct, kw_only=True):
    """An action on an object other than jobs: `pause`, of a `queue`, whose name is `mail`."""

    command: str
    of: str
    name: str


class ActionRecord(msgspec.Struct, kw_only=True):
    """The audit record of an action.

    `matched` jobs were looked at so far, `done` to so many; the others were `passed_over`, and
    `why` counts them by the state that they were in. `lost`: nothing was seen of it for a minute.
    `about`: what was done to something else than jobs, such as a queue; null: it is about jobs.
    """

    id: IdText
    who: str
    action: ActionKind
    about: AboutThing | None
    change: dict[str, Any] | None
    filter: str | None
    ids: list[IdText] | None
    expected: int | None
    matched: int
    done: int
    passed_over: int
    why: dict[str, int]
    state: ActionState
    error: str | None
    started_at: datetime
    seen_at: datetime
    finished_at: datetime | None


class ActionPage(msgspec.Struct, kw_only=True):
    """Some actions, newest first. `next`: the cursor of those that follow; null: there are none."""

    actions: list[ActionRecord]
    next: str | None


class ActionsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many actions, and from where on."""

    cursor: CursorText = ""
    size: Annotated[int, Meta(ge=1, le=100, description="The most actions of a page.")] = 50


async def act(call: ApiCall) -> Answered:
    """Do something to jobs."""
    body: ActionBody = call.body
    if call.access.only and body.change is not None and body.change.queue is not None:
        raise Conflict("Refused", "who sees only some jobs moves none to a queue", status=403)
    action = _action(body)
    which, ids = await _which(call, body)

    async def run(progress: Progress) -> AuditRecord:
        return await call.client.actions.arun(
            action, which, by=acting(call.access), ids=ids, expected=body.expected, batch=BATCH,
            progress=progress, is_stopping=call.site.background.is_closing,
        )  # fmt: skip

    if call.site.background.is_full:
        raise Conflict(
            "TooManyActions", "as many actions run as may; begin this one later", status=429
        )
    begun = await begin(call.site.background, run)
    record = begun if isinstance(begun, AuditRecord) else await _known(call, begun)
    where = {"location": call.url(f"{PREFIX}/actions/{record.id}")}
    return Answered(_record(call, record), 202 if record.finished_at is None else 200, where)


async def list_actions(call: ApiCall) -> Answered:
    """Answer a page of the audit."""
    query: ActionsQuery = call.query
    before = read_cursor(query.cursor) if query.cursor else None
    found = await call.client.actions.alist(before=before, limit=query.size + 1)
    page = found[: query.size]
    following = cursor_of(page[-1].id) if len(found) > query.size else None
    return Answered(ActionPage(actions=[_record(call, each) for each in page], next=following))


async def show_action(call: ApiCall) -> Answered:
    """Answer how far an action came."""
    return Answered(_record(call, await _found(call, call.id())))


async def stop_action(call: ApiCall) -> Answered:
    """Stop an action after its batch, wherever it runs."""
    found = await _found(call, call.id())
    if not await call.client.actions.astop(found.id):
        raise Conflict("NotRunning", f"action {found.id} does not run: it is {found.state}")
    return Answered(_record(call, await _found(call, found.id)), 202)


async def _found(call: ApiCall, id: int) -> AuditRecord:
    """Return an action; a user that sees only some jobs sees only their own actions."""
    found = await _known(call, id)
    if call.access.only and not _is_own(call.access, found):
        raise _unknown(id)
    return found


async def _known(call: ApiCall, id: int) -> AuditRecord:
    found = await call.client.actions.aget(id)
    if found is None:
        raise _unknown(id)
    return found


def _unknown(id: int) -> Conflict:
    return Conflict("UnknownAction", f"there is no action {id} that you may see", status=404)


def _is_own(access: Access, record: AuditRecord) -> bool:
    """Return whether it is an action of that name, on jobs of which all are seen.

    Several may have one name, or none: its filter has all terms of the one that they have.
    """
    acted, seen = parse(record.filter or "").terms, parse(access.only).terms
    return record.who == acting(access) and {*map(str, seen)} <= {*map(str, acted)}


def _record(call: ApiCall, record: AuditRecord) -> ActionRecord:
    contents, blanking, about = call.access.contents, call.site.blanking, record.about
    return copied(
        ActionRecord,
        record,
        id=str(record.id),
        ids=None if record.ids is None else [str(each) for each in record.ids],
        about=None if about is None else AboutThing(**about._asdict()),
        change=None if about or record.change is None else row_json.shown(record.change),
        filter=blanking.text(record.filter) if contents and record.filter is not None else None,
        error=blanking.text(record.error) if contents and record.error is not None else None,
        why=dict(record.why),
    )


def _action(body: ActionBody) -> Action:
    """Return the action, checked before any job is searched."""
    if body.change is None:
        if body.action is ActionKind.CHANGE:
            raise UnreadableRequest("say which values are new", place="body.change")
        return Action(body.action)
    if body.action is not ActionKind.CHANGE:
        raise UnreadableRequest(f"{body.action} has no new values", place="body.change")
    given = msgspec.structs.asdict(body.change)
    new: ChangeTerms = {name: each for name, each in given.items() if each is not None}  # type: ignore[assignment]
    return Action(body.action, change_of(new))


async def _which(call: ApiCall, body: ActionBody) -> tuple[Filter | None, tuple[int, ...] | None]:
    """Return the filter of the jobs and their ids, if they are named; of those that are seen."""
    by_ids = body.ids is not None
    if by_ids == (body.filter is not None) or by_ids == (body.expected is not None):
        raise UnreadableRequest("give either `ids`, or `filter` with `expected`", place="body")
    if body.ids is not None:
        ids = await _visible(call, tuple(dict.fromkeys(_ids(body.ids))))
        return call.filter("") or None, ids
    if not parse(body.filter or ""):
        raise UnreadableRequest(
            "an empty filter means every job; say which, such as queue:mail", place="body.filter"
        )
    which = _that_it_can_reach(call.filter(body.filter or ""), body.action)
    await check_expected(call.client.reading, which, body.expected or 0)
    return which, None


async def _visible(call: ApiCall, ids: tuple[int, ...]) -> tuple[int, ...]:
    """Return those of these jobs that the caller may see."""
    if not call.access.only:
        return ids
    wanted: JobFilter = replace(call.filter("").at(call.now, limit=None), ids=ids)
    seen = {*(await call.client.store.audit.matching_ids(wanted, size=len(ids)))[0]}
    if not seen:
        raise Conflict("UnknownJob", "there are no such jobs that you may see", status=404)
    return tuple(each for each in ids if each in seen)


def _that_it_can_reach(which: Filter, kind: ActionKind) -> Filter:
    """Return a filter of dead jobs only, where none of the states is given that are redriven."""
    said = any(each.qualifier == "state" for each in which.terms)
    if kind is ActionKind.REDRIVE and not said:
        return which.having("state", JobState.DEAD)
    return which


def _ids(given: Collection[str | int]) -> list[int]:
    found = []
    for place, each in enumerate(given):
        try:
            found.append(id_of(each))
        except ValueError as unfit:
            raise UnreadableRequest(str(unfit), place=f"body.ids[{place}]") from None
    return found


_NONE = {404: "There is no such action."}

OPERATIONS = (
    Operation(
        name="act", method="POST", path="/actions", role=Permission.ACT, run=act, body=ActionBody,
        answer=ActionRecord, whole=False, statuses=(200, 202),
        does="Retry, cancel, redrive, change or delete jobs, by their ids or by a filter.",
        refusals={404: "There are no such jobs.", 429: "As many actions run as may.",
                  409: "Another number of jobs matches than was expected, or too many."},
    ),
    Operation(
        name="list_actions", method="GET", path="/actions", role=Permission.READ, run=list_actions,
        query=ActionsQuery, answer=ActionPage, does="List what was done to jobs, and by whom.",
    ),
    Operation(
        name="show_action", method="GET", path="/actions/{id}",
        role=Permission.READ, run=show_action,
        answer=ActionRecord, whole=False, refusals=_NONE, does="Show how far an action came.",
    ),
    Operation(
        name="stop_action", method="POST", path="/actions/{id}/stop", role=Permission.ACT,
        run=stop_action, answer=ActionRecord, whole=False, statuses=(202,),
        refusals={**_NONE, 409: "It does not run."}, does="Stop an action after its batch.",
    ),
)  # fmt: skip
