"""A form to enqueue a job, made from the signature of its task; also of a job that there is.

What is a secret in that job is not sent to the browser: a field that is left as it is shown means
the value of the job.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from mutirao.model.jobs.records import JobRecord
from mutirao.tasks.signatures.parameters import Argument
from mutirao.web.access import Permission, Refused, check
from mutirao.web.forms import id_in
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall
from mutirao.web.showing import compact

LONGEST_SHOWN = 20_000  # characters of a value that is put into a field
MOST_TASKS = 1_000
OPTIONS = ("queue", "priority", "delay", "key", "tenant")
OWN = ("mutirao.", "mutirao:")  # prefixes of the names of tasks that are not enqueued by hand


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """A field of the form: an argument of the task, and its typed value."""

    its: Argument
    value: str = ""

    @property
    def is_text(self) -> bool:
        """Whether the typed text is the value; otherwise it is JSON."""
        return self.its.kind == "str"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The typed values of the form."""

    args: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    wrong: str = ""


async def show(call: PageCall) -> Response:
    """Show the tasks to choose from, or the form of one."""
    check(call.access, Permission.ACT, whole=True)
    id = call.query.text("from", 20)
    job = await copied_job(call, id_in(id)) if id else None
    name = job.task if job is not None else call.query.text("task", 200)
    filled = Filled() if job is None else Filled(args=shown_args(call, job), options=_options(job))
    return form(call, name, job, filled)


def form(call: PageCall, name: str, job: JobRecord | None, filled: Filled) -> Response:
    """Return the page with a form, and with its error."""
    tasks = sorted(each for each in call.client.tasks if not each.startswith(OWN))
    task = call.client.task_named(name) if name else None
    arguments = () if task is None else task.signature.described
    named = [ArgumentField(each, filled.args.get(each.name, "")) for each in arguments]
    return call.page(
        "enqueue.html", 400 if filled.wrong else 200, tasks=tasks[:MOST_TASKS], task=task, job=job,
        fields=named, filled=filled, standalone=not call.client.tasks,
    )  # fmt: skip


async def copied_job(call: PageCall, id: int) -> JobRecord:
    """Return the job whose values fill the form; raise Refused if the user sees no contents."""
    if not call.access.contents:
        raise Refused(None)
    return await call.client.ajob(id)


def shown_args(call: PageCall, job: JobRecord) -> dict[str, str]:
    """Return the values of the fields: the arguments of a job, without the secrets in them."""
    task = call.client.tasks.get(job.task)
    texts = set() if task is None else {
        each.name for each in task.signature.described if each.kind == "str"
    }  # fmt: skip
    blanked = call.site.blanking.value(job.args)
    return {
        name: _spelled(value, is_text=name in texts)
        for name, value in blanked.items()
        if isinstance(blanked, dict)
    }


def _spelled(value: Any, *, is_text: bool) -> str:
    text = value if is_text and isinstance(value, str) else compact(value)
    return text[:LONGEST_SHOWN]


def _options(job: JobRecord) -> dict[str, str]:
    """Return the options of a job that are put into the form; its key is of that job alone."""
    found = {"queue": job.queue, "priority": str(job.priority or ""), "tenant": job.tenant or ""}
    return {name: value for name, value in found.items() if value}


PAGE = SitePage(path="/enqueue", name="enqueue", show=show, listed=False)
