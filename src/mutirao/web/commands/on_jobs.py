"""Commands on jobs that were chosen: those that their sender may see, and no others."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace

from mutirao.model.audit.actions import ActionKind, NewAction
from mutirao.model.filters.filter import parse
from mutirao.model.jobs.change import Change
from mutirao.model.jobs.records import JobFilter
from mutirao.model.lengths import length
from mutirao.tasks.options import ChangeTerms, change_of
from mutirao.web.access import who
from mutirao.web.forms import Fields, Misread
from mutirao.web.page_call import Notice, PageCall


async def retry(call: PageCall, form: Fields) -> Notice:
    """Make waiting jobs due now."""
    return await _do(call, ActionKind.RETRY, _chosen(call, form))


async def cancel(call: PageCall, form: Fields) -> Notice:
    """Cancel jobs."""
    return await _do(call, ActionKind.CANCEL, _chosen(call, form))


async def redrive(call: PageCall, form: Fields) -> Notice:
    """Enqueue jobs that have ended again, as new ones."""
    return await _do(call, ActionKind.REDRIVE, _chosen(call, form))


async def change(call: PageCall, form: Fields) -> Notice:
    """Give waiting jobs another priority, queue or time."""
    new = new_values(call, form)
    if isinstance(new, Notice):
        return new
    return await _do(call, ActionKind.CHANGE, _chosen(call, form), new)


def new_values(call: PageCall, form: Fields) -> Change | Notice:
    """Return the new values of jobs in a form, or why there are none.

    Raises:
        Misread: one cannot be read.
    """
    new: ChangeTerms = {}
    if priority := form.text("priority", 10):
        new["priority"] = _whole(priority)
    if queue := form.text("queue", 200):
        if call.access.only:  # it would go where the caller may not reach
            return Notice("failed.other_queue")
        new["queue"] = queue
    if delay := form.text("delay", 20):
        try:
            new["delay"] = length(delay)
        except ValueError:
            raise Misread("refused.bad_length") from None
    return change_of(new) if new else Notice("failed.no_change")


def _whole(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise Misread("refused.bad_number")
    return int(text)


def _chosen(call: PageCall, form: Fields) -> JobFilter:
    """Return the jobs that were chosen, of those that the caller may see."""
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
        who=who(call.access),
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


def _spelled(change: Change) -> str:
    """Return the new values of a change as JSON."""
    given = {name: value for name, value in asdict(change).items() if value is not None}
    return json.dumps(given, default=str)
