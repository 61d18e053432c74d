"""The command that enqueues a job of a task, from the form of its arguments."""

from typing import Any

from starlette.responses import Response

from mutirao.errors import MutiraoError, StoreError, UnknownTask
from mutirao.model import row_json
from mutirao.model.audit.actions import About
from mutirao.model.blanking import BLANK
from mutirao.model.jobs.records import JobRecord
from mutirao.model.lengths import length
from mutirao.model.row_json import UnreadableRow
from mutirao.tasks.task import Task
from mutirao.web.forms import Fields, Misread, id_in
from mutirao.web.page_call import Notice, PageCall
from mutirao.web.pages.enqueue import OPTIONS, Filled, copied_job, form, shown_args

LONGEST_VALUE = 60_000  # characters; the whole form has no more bytes


class Wrong(Exception):
    """An error in the form: the key of a text, and a fact."""

    def __init__(self, key: str, detail: str) -> None:
        super().__init__(key, detail)
        self.key, self.detail = key, detail


async def enqueue(call: PageCall, given: Fields) -> Notice | Response:
    """Enqueue a job; if that is impossible, show the form again with the error."""
    task = call.client.task_named(given.text("task", 200))
    source = given.text("from", 20)
    job = await copied_job(call, id_in(source)) if source else None
    if job is not None and job.task != task.name:  # its secrets are for its own task
        raise Misread("refused.bad_field")
    try:
        made = task.using(**_options(given)).job(**_arguments(call, task, given, job))
        about = About("enqueue", "task", task.name)
        handle = await call.noted(about, lambda: call.client.asubmit(made))
    except (StoreError, UnknownTask):
        raise
    except Wrong as wrong:
        return _again(call, given, task, job, call.t(wrong.key, detail=wrong.detail))
    except MutiraoError as refused:
        return _again(call, given, task, job, call.site.blanking.text(str(refused)))
    key = "done.enqueue" if handle.created else "done.enqueue_found"
    return Notice(key, detail=str(handle.id), to=call.url("job", id=handle.id))


def _again(
    call: PageCall, given: Fields, task: Task[..., Any], job: JobRecord | None, wrong: str
) -> Response:
    args = {each.name: _typed(given, each.name) for each in task.signature.described}
    options = {name: given.text(name, 200) for name in OPTIONS}
    return form(call, task.name, job, Filled(args=args, options=options, wrong=wrong))


def _typed(given: Fields, name: str) -> str:
    return given.text(f"arg.{name}", LONGEST_VALUE, strip=False)


def _arguments(
    call: PageCall, task: Task[..., Any], given: Fields, job: JobRecord | None
) -> dict[str, Any]:
    shown = {} if job is None else shown_args(call, job)
    found: dict[str, Any] = {}
    for each in task.signature.described:
        typed = _typed(given, each.name).replace("\r\n", "\n")
        if job is not None and each.name in job.args and typed == shown.get(each.name):
            found[each.name] = job.args[each.name]
        elif BLANK in typed and job is not None:
            raise Wrong("enqueue.blank", each.name)
        elif each.kind == "str" and (typed or each.default is None):
            found[each.name] = typed
        elif typed.strip():
            found[each.name] = _read(each.name, typed)
        elif each.default is None:
            raise Wrong("enqueue.missing", each.name)
    return _spread(found, task)


def _spread(found: dict[str, Any], task: Task[..., Any]) -> dict[str, Any]:
    """Return arguments with those by any name among the others, as a call has them."""
    more = next((each.name for each in task.signature.described if each.any_name), None)
    if more is None or more not in found:
        return found
    others = found.pop(more)
    if not isinstance(others, dict):
        raise Wrong("enqueue.no_object", more)
    return {**found, **others}


def _read(name: str, typed: str) -> Any:
    try:
        return row_json.read(typed, name)
    except UnreadableRow:
        raise Wrong("enqueue.no_json", name) from None


def _options(given: Fields) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: typed for name in ("queue", "key", "tenant") if (typed := given.text(name, 200))
    }
    if priority := given.text("priority", 10):
        digits = priority.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()):
            raise Misread("refused.bad_number")
        found["priority"] = int(priority)
    if delay := given.text("delay", 20):
        try:
            found["delay"] = length(delay)
        except ValueError:
            raise Misread("refused.bad_length") from None
    return found
