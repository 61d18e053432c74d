"""Actions on jobs: on those that are named, or on all that a filter finds.

By a filter, the number that was seen has to be given: if another number matches when the action
begins, nothing is done. It acts on the jobs that it has counted, and on no others.
"""

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from mutirao.errors import InvalidFilter
from mutirao.model.jobs.job import MAX_PRIORITY, MIN_PRIORITY, JobState
from mutirao.model.jobs.records import MAX_INTEGER, JobFilter
from mutirao.model.reading.figures import Page
from mutirao.tasks.options import ChangeTerms, change_of
from mutirao.web.access import Role
from mutirao.web.api.call import Call, Unreadable
from mutirao.web.api.enqueue import Moment, Seconds
from mutirao.web.api.jobs import FilterText
from mutirao.web.api.operation import Operation, Reply
from mutirao.web.api.problems import Conflict
from mutirao.web.api.values import Id, IdText, id_of

MOST_ACTED_ON = 1_000  # jobs of one request


class Verb(StrEnum):
    """What is done to jobs."""

    RETRY = "retry"  # waiting ones become due now
    CANCEL = "cancel"
    REDRIVE = "redrive"  # finished ones are enqueued again
    CHANGE = "change"


class NewValues(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The new values of waiting jobs; what is left out stays as it is."""

    priority: Annotated[int, Meta(ge=MIN_PRIORITY, le=MAX_PRIORITY)] | None = None
    queue: str | None = None
    run_at: Moment | None = None
    delay: Seconds | None = None
    max_attempts: int | None = None


class ActionBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is done, and to which jobs: `ids`, or `filter` with the number `expected`."""

    action: Verb
    ids: Annotated[list[Id], Meta(min_length=1, max_length=MOST_ACTED_ON)] | None = None
    filter: FilterText | None = None
    expected: Annotated[int, Meta(ge=0, le=MAX_INTEGER)] | None = None
    change: NewValues | None = None


class Done(msgspec.Struct, kw_only=True):
    """What came of an action.

    `matched` jobs were named or found; `ids` are those that it has reached, the new ones of a
    redrive; `passed_over` jobs were in a state that does not allow it.
    """

    action: Verb
    matched: int
    passed_over: int
    ids: list[IdText]


async def act(call: Call) -> Reply:
    """Do something to jobs."""
    body: ActionBody = call.body
    new = _new(body)
    which = await _which(call, body)
    matched = len(which.ids or ())
    reached = await _do(call, body.action, which, new) if matched else []
    return Reply(
        Done(action=body.action, matched=matched, passed_over=matched - len(reached),
             ids=[str(each) for each in reached])
    )  # fmt: skip


async def _do(call: Call, verb: Verb, which: JobFilter, new: ChangeTerms) -> list[int]:
    store = call.desk.store
    match verb:
        case Verb.RETRY:
            return await store.run_now(which)
        case Verb.CANCEL:
            return await store.cancel(which)
        case Verb.REDRIVE:
            return await store.redrive(which)
        case Verb.CHANGE:
            return await store.change(which, change_of(new))


def _new(body: ActionBody) -> ChangeTerms:
    """Return the new values of a change, checked before anything is looked for."""
    if body.change is None:
        if body.action is Verb.CHANGE:
            raise Unreadable("say which values are new", place="body.change")
        return {}
    if body.action is not Verb.CHANGE:
        raise Unreadable(f"{body.action} has no new values", place="body.change")
    given = msgspec.structs.asdict(body.change)
    new: ChangeTerms = {name: each for name, each in given.items() if each is not None}  # type: ignore[assignment]
    change_of(new)
    return new


async def _which(call: Call, body: ActionBody) -> JobFilter:
    """Return the jobs by their ids, of those that whoever acts may see."""
    visible = call.filter(body.filter or "").at(call.now, limit=None)
    if body.ids is not None:
        if body.filter is not None or body.expected is not None:
            raise Unreadable("give either `ids`, or `filter` with `expected`", place="body")
        return replace(visible, ids=tuple(dict.fromkeys(_ids(body.ids))), limit=None)
    if body.filter is None or body.expected is None:
        raise Unreadable("give either `ids`, or `filter` with `expected`", place="body")
    if not call.filter(body.filter):
        raise InvalidFilter("an empty filter means every job; say which, such as queue:mail")
    reachable = _that_it_can_reach(visible, body.action)
    page = await call.desk.reading.asearch(reachable, size=MOST_ACTED_ON)
    _check_expected(page, body.expected)
    return JobFilter(ids=tuple(each.id for each in page.jobs), limit=None)


def _that_it_can_reach(which: JobFilter, verb: Verb) -> JobFilter:
    """Return a filter with dead jobs only, where none of the states is said that are redriven."""
    if verb is Verb.REDRIVE and which.any_state is None:
        return replace(which, state=JobState.DEAD)
    return which


def _check_expected(page: Page, expected: int) -> None:
    if page.next is not None:
        raise Conflict(
            "TooManyJobs",
            f"more than {MOST_ACTED_ON:,} jobs match, the most of one request, or too many had to"
            " be looked at; narrow the filter, such as with id:1..9000",
        )
    matched = len(page.jobs)
    if matched != expected:
        raise Conflict(
            "OtherNumber",
            f"{matched:,} jobs match now, and {expected:,} were expected; look at them again."
            " Nothing was done",
            matched=matched,
        )


def _ids(given: list[str | int]) -> list[int]:
    found = []
    for place, each in enumerate(given):
        try:
            found.append(id_of(each))
        except ValueError as unfit:
            raise Unreadable(str(unfit), place=f"body.ids[{place}]") from None
    return found


OPERATIONS = (
    Operation(
        name="act", method="POST", path="/actions", role=Role.ACT, run=act, body=ActionBody,
        answer=Done, whole=False,
        does="Retry, cancel, redrive or change jobs, by their ids or by a filter.",
        refusals={409: "Another number of jobs matches than was expected, or too many."},
    ),
)  # fmt: skip
