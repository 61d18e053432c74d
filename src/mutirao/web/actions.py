"""The commands that forms give. Each checks itself who may give it, on which jobs, and then acts.

A command answers with the way back to the page, which tells what came of it: a page that is loaded
again acts on nothing.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace

from starlette.exceptions import HTTPException
from starlette.responses import Response

from mutirao.errors import MutiraoError, StoreError
from mutirao.model.audit.actions import MAX_WHO, Action, ActionKind, AuditRecord, NewAction
from mutirao.model.display import one_line
from mutirao.model.filters.filter import parse
from mutirao.model.jobs.change import Change
from mutirao.model.jobs.records import JobFilter
from mutirao.model.lengths import length
from mutirao.tasks.options import ChangeTerms, change_of
from mutirao.web.access import Permission, check
from mutirao.web.api.begun_actions import MOST_EXPECTED, Progress, begin, check_expected
from mutirao.web.api.problems import Conflict
from mutirao.web.dashboard_client import DashboardClient
from mutirao.web.forms import Fields, Misread, form_of, id_in
from mutirao.web.page_call import LANGUAGE, THEME, THEMES, TIME, TIMES, Notice, PageCall
from mutirao.web.texts.language import LANGUAGES

EVERYTHING = ("retry", "redrive", "cancel")  # what is offered for all that matches
BATCH = 500  # jobs, of which a transaction takes less than the time that a call has
LONGEST_BACK = 4_000  # characters of a path with its query, in which a filter is escaped
NOBODY = "dashboard"  # who acts, where nobody says who it is

Run = Callable[[PageCall, Fields], Awaitable[Notice]]


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the role that it needs, and whether it is about more than some jobs."""

    role: Permission
    run: Run
    whole: bool = True


async def act(call: PageCall) -> Response:
    """Give the command that the path names; tell on the page it came from what became of it."""
    command = COMMANDS.get(call.request.path_params["name"])
    if command is None:
        raise HTTPException(404)
    check(call.access, command.role, whole=command.whole)
    form = await form_of(call.request)
    back = _back(form)  # before anything is done: what was done is told in any case
    try:
        said = await command.run(call, form)
    except StoreError:
        raise
    except MutiraoError as refused:
        said = Notice("failed.told", detail=call.site.blanking.text(str(refused)))
    call.site.readings.forget()
    return call.back(back, said)


async def prefer(call: PageCall) -> Response:
    """Keep how somebody likes the pages in the browser."""
    check(call.access, Permission.READ)
    form = await form_of(call.request)
    response = call.back(_back(form))
    for cookie, known in ((LANGUAGE, (*LANGUAGES,)), (THEME, THEMES), (TIME, TIMES)):
        chosen = form.text(cookie.removeprefix("mutirao_"), 20)
        if chosen in known:
            call.remember(response, cookie, chosen)
    return response


def _back(form: Fields) -> str:
    """Return where the form came from; empty, and so the first page, if that cannot be read."""
    try:
        return form.text("back", LONGEST_BACK)
    except Misread:
        return ""


# On jobs


def _chosen(call: PageCall, form: Fields) -> JobFilter:
    """Return the jobs that were chosen, of those that whoever acts may see."""
    ids = form.ids()
    if not ids:
        raise Misread("refused.no_ids")
    return replace(parse(call.access.only).at(call.now, limit=None), ids=ids)


async def _do(
    call: PageCall, kind: ActionKind, which: JobFilter, change: Change | None = None
) -> Notice:
    """Act on jobs, have the audit know, and return how many of those that were named it reached."""
    store = call.client.store
    work: Mapping[ActionKind, Callable[[], Awaitable[list[int]]]] = {
        ActionKind.RETRY: lambda: store.run_now(which),
        ActionKind.CANCEL: lambda: store.cancel(which),
        ActionKind.REDRIVE: lambda: store.redrive(which),
        ActionKind.CHANGE: lambda: store.change(which, change or Change()),
    }
    new = NewAction(
        who=one_line(call.access.user)[:MAX_WHO] or NOBODY,
        action=kind,
        change=None if change is None else _spelled(change),
        filter=call.access.only or None,
        ids=which.ids,
    )
    reached = await call.client.actions.aobserve(new, work[kind])
    if not reached:
        return Notice(f"failed.{kind}")
    asked = len(which.ids or ())
    return Notice(f"done.{kind}", len(reached), f"{len(reached)}/{asked}" if asked > 1 else "")


async def _everything(call: PageCall, form: Fields) -> Notice:
    """Act on all jobs that a filter means, behind the pages; the audit tells how far it is."""
    kind = ActionKind(form.one_of("action", *EVERYTHING))
    which = call.filter(form.text("q"))
    if not which:
        raise Misread("refused.no_filter")
    everything, expected = which + parse(call.access.only), _expected(form)

    async def run(progress: Progress) -> AuditRecord:
        return await call.client.actions.arun(
            Action(kind), everything, by=one_line(call.access.user)[:MAX_WHO] or NOBODY,
            expected=expected, batch=BATCH, progress=progress,
            is_stopping=call.site.background.is_closing,
        )  # fmt: skip

    try:
        if expected is not None:
            await check_expected(call.client.reading, everything, expected)
    except Conflict as refused:
        return Notice("failed.told", detail=str(refused))
    if call.site.background.is_full:
        return Notice("failed.busy")
    await begin(call.site.background, run)
    return Notice("done.everything")


def _expected(form: Fields) -> int | None:
    """Return the number of jobs that the page showed; None: it did not count them to the end."""
    text = form.text("expected", 20)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) <= MOST_EXPECTED):
        raise Misread("refused.bad_field")
    return int(text)


async def _stop(call: PageCall, form: Fields) -> Notice:
    id = id_in(form.text("action", 20))
    stopped = await call.client.actions.astop(id)
    return Notice("done.stop" if stopped else "failed.stop", detail=str(id))


def _spelled(change: Change) -> str:
    """Return the new values of a change as JSON."""
    given = {name: value for name, value in asdict(change).items() if value is not None}
    return json.dumps(given, default=str)


async def _retry(call: PageCall, form: Fields) -> Notice:
    which = _chosen(call, form)
    return await _do(call, ActionKind.RETRY, which)


async def _cancel(call: PageCall, form: Fields) -> Notice:
    which = _chosen(call, form)
    return await _do(call, ActionKind.CANCEL, which)


async def _redrive(call: PageCall, form: Fields) -> Notice:
    which = _chosen(call, form)
    return await _do(call, ActionKind.REDRIVE, which)


async def _change(call: PageCall, form: Fields) -> Notice:
    new: ChangeTerms = {}
    if priority := form.text("priority", 10):
        new["priority"] = _whole(priority)
    if queue := form.text("queue", 200):
        if call.access.only:  # it would go where whoever acts may not reach
            return Notice("failed.other_queue")
        new["queue"] = queue
    if delay := form.text("delay", 20):
        try:
            new["delay"] = length(delay)
        except ValueError:
            raise Misread("refused.bad_length") from None
    if not new:
        return Notice("failed.no_change")
    which = _chosen(call, form)
    return await _do(call, ActionKind.CHANGE, which, change_of(new))


def _whole(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise Misread("refused.bad_number")
    return int(text)


# On what has a name


def _name(form: Fields, field: str) -> str:
    name = form.text(field, 200)
    if not name:
        raise Misread("refused.no_name")
    return name


def _named(field: str, done: str, do: Callable[[DashboardClient, str], Awaitable[object]]) -> Run:
    """Return a command on the thing that a field names, and which text tells that it is done."""

    async def run(call: PageCall, form: Fields) -> Notice:
        name = _name(form, field)
        await do(call.client, name)
        return Notice(done, detail=name)

    return run


async def _run_schedule(call: PageCall, form: Fields) -> Notice:
    made = await call.client.schedules.arun_now(_name(form, "schedule"))
    return Notice("done.run_schedule", detail=str(made.id))


async def _pause_schedule(call: PageCall, form: Fields) -> Notice:
    name, reason = _name(form, "schedule"), form.text("reason", 500)
    await call.client.schedules.apause(name, reason=reason or None)
    return Notice("done.pause", detail=name)


async def _test_endpoint(call: PageCall, form: Fields) -> Notice:
    made = await call.client.endpoints.atest(_name(form, "endpoint"))
    return Notice("done.test", detail=str(made.id))


COMMANDS: Mapping[str, Command] = {
    "retry": Command(Permission.ACT, _retry, whole=False),
    "cancel": Command(Permission.ACT, _cancel, whole=False),
    "redrive": Command(Permission.ACT, _redrive, whole=False),
    "change": Command(Permission.ACT, _change, whole=False),
    "everything": Command(Permission.ACT, _everything, whole=False),
    "stop": Command(Permission.ACT, _stop),
    "run-schedule": Command(Permission.ACT, _run_schedule),
    "pause-queue": Command(
        Permission.ADMIN,
        _named("queue", "done.pause", lambda client, name: client.limits.apause(queue=name)),
    ),
    "resume-queue": Command(
        Permission.ADMIN,
        _named("queue", "done.resume", lambda client, name: client.limits.aresume(queue=name)),
    ),
    "pause-schedule": Command(Permission.ADMIN, _pause_schedule),
    "resume-schedule": Command(
        Permission.ADMIN,
        _named("schedule", "done.resume", lambda client, name: client.schedules.aresume(name)),
    ),
    "disable-subscription": Command(
        Permission.ADMIN,
        _named(
            "subscription", "done.disable", lambda client, name: client.subscriptions.adisable(name)
        ),
    ),
    "enable-subscription": Command(
        Permission.ADMIN,
        _named(
            "subscription", "done.enable", lambda client, name: client.subscriptions.aenable(name)
        ),
    ),
    "pause-endpoint": Command(
        Permission.ADMIN,
        _named("endpoint", "done.pause", lambda client, name: client.endpoints.apause(name)),
    ),
    "resume-endpoint": Command(
        Permission.ADMIN,
        _named("endpoint", "done.resume", lambda client, name: client.endpoints.aresume(name)),
    ),
    "test-endpoint": Command(Permission.ADMIN, _test_endpoint),
}
