"""The commands of forms: the role that each needs, and the message about its result.

Each is checked itself, when it is about to act: a button that is not shown protects nothing. A
command answers with a redirect to the page, which shows the result: to load that page again
acts on nothing.
"""

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.responses import Response

from mutirao.errors import MutiraoError, StoreError
from mutirao.web.access import Permission, check
from mutirao.web.commands import on_everything, on_jobs, on_tasks
from mutirao.web.commands.on_brokers import on_dead
from mutirao.web.commands.on_things import counting, making, named, pause_schedule
from mutirao.web.commands.page_command import Command
from mutirao.web.forms import Fields, Misread, form_of
from mutirao.web.page_call import (
    COLUMN,
    COLUMNS,
    LANGUAGE,
    NO_COLUMN,
    THEME,
    THEMES,
    TIME,
    TIMES,
    Notice,
    PageCall,
)
from mutirao.web.texts.language import LANGUAGES

LONGEST_BACK = 4_000  # characters of a path with its query, in which a filter is escaped


async def act(call: PageCall) -> Response:
    """Execute the command in the path; show the result on the page that it came from."""
    command = COMMANDS.get(call.request.path_params["name"])
    if command is None:
        raise HTTPException(404)
    check(call.access, command.role, whole=command.whole)
    form = await form_of(call.request)
    back = _back(form)  # before anything is done: what was done is shown in any case
    said: Notice | Response
    try:
        said = await command.run(call, form)
    except StoreError:
        raise
    except MutiraoError as refused:
        said = Notice("failed.told", detail=call.site.blanking.text(str(refused)))
    if isinstance(said, Response):
        return said
    call.site.readings.forget()
    return call.back(said.to or back, said)


async def prefer(call: PageCall) -> Response:
    """Keep how a user likes the pages in the browser."""
    check(call.access, Permission.READ)
    form = await form_of(call.request)
    response = call.back(_back(form))
    if form.has("columns"):
        columns = [each for each in form.several("columns") if each in COLUMNS]
        call.remember(response, COLUMN, ".".join(columns) or NO_COLUMN)
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


_ADMIN = Permission.ADMIN
COMMANDS: Mapping[str, Command] = {
    "retry": Command(Permission.ACT, on_jobs.retry, whole=False),
    "cancel": Command(Permission.ACT, on_jobs.cancel, whole=False),
    "redrive": Command(Permission.ACT, on_jobs.redrive, whole=False),
    "change": Command(Permission.ACT, on_jobs.change, whole=False),
    "everything": Command(Permission.ACT, on_everything.everything, whole=False),
    "stop": Command(Permission.ACT, on_everything.stop),
    "enqueue": Command(Permission.ACT, on_tasks.enqueue),
    "run-schedule": Command(
        Permission.ACT,
        making("schedule", "run", lambda its, name: its.schedules.arun_now(name),
               "done.run_schedule"),
    ),
    "pause-queue": Command(
        _ADMIN, named("queue", "pause", lambda its, name: its.limits.apause(queue=name))
    ),
    "resume-queue": Command(
        _ADMIN, named("queue", "resume", lambda its, name: its.limits.aresume(queue=name))
    ),
    "pause-schedule": Command(_ADMIN, pause_schedule),
    "resume-schedule": Command(
        _ADMIN, named("schedule", "resume", lambda its, name: its.schedules.aresume(name))
    ),
    "disable-subscription": Command(
        _ADMIN,
        named("subscription", "disable", lambda its, name: its.subscriptions.adisable(name)),
    ),
    "enable-subscription": Command(
        _ADMIN, named("subscription", "enable", lambda its, name: its.subscriptions.aenable(name))
    ),
    "pause-endpoint": Command(
        _ADMIN, named("endpoint", "pause", lambda its, name: its.endpoints.apause(name))
    ),
    "resume-endpoint": Command(
        _ADMIN, named("endpoint", "resume", lambda its, name: its.endpoints.aresume(name))
    ),
    "test-endpoint": Command(
        _ADMIN,
        making("endpoint", "test", lambda its, name: its.endpoints.atest(name), "done.test"),
    ),
    "flush-host": Command(
        _ADMIN, named("host", "flush", lambda its, name: its.hosts.aflush(name))
    ),
    "hold-host": Command(_ADMIN, named("host", "hold", lambda its, name: its.hosts.ahold(name))),
    "redrive-host": Command(
        _ADMIN, counting("host", "redrive", lambda its, name: its.hosts.aredrive(name))
    ),
    "return-dead": Command(
        _ADMIN, on_dead("return", lambda its, queue, ids: its.return_dead(queue, ids))
    ),
    "drop-dead": Command(
        _ADMIN, on_dead("drop", lambda its, queue, ids: its.drop_dead(queue, ids))
    ),
}  # fmt: skip
