"""Commands on named objects: queues, schedules, subscriptions, endpoints. The audit has each."""

from collections.abc import Awaitable, Callable
from typing import Any

from mutirao.model.audit.actions import About
from mutirao.web.commands.page_command import Run
from mutirao.web.dashboard_client import DashboardClient
from mutirao.web.forms import Fields, Misread
from mutirao.web.page_call import Notice, PageCall

Do = Callable[[DashboardClient, str], Awaitable[Any]]


def named(of: str, command: str, do: Do) -> Run:
    """Return a command on the thing that a field names.

    Parameters:
        of: the kind of thing, which is also the name of the field.
        command: the name of the command; the text about its result is `done.command`.
        do: does it.
    """

    async def run(call: PageCall, form: Fields) -> Notice:
        name = name_in(form, of)
        await call.noted(About(command, of, name), lambda: do(call.client, name))
        return Notice(f"done.{command}", detail=name)

    return run


def making(of: str, command: str, do: Do, done: str) -> Run:
    """Return a command on such an object that makes a job, whose id is in the text."""

    async def run(call: PageCall, form: Fields) -> Notice:
        name = name_in(form, of)
        made = await call.noted(About(command, of, name), lambda: do(call.client, name))
        return Notice(done, detail=str(made.id))

    return run


def counting(of: str, command: str, do: Do) -> Run:
    """Return a command on such an object that reaches jobs, whose number is in the text."""

    async def run(call: PageCall, form: Fields) -> Notice:
        name = name_in(form, of)
        reached = await call.noted(About(command, of, name), lambda: do(call.client, name))
        return Notice(f"done.{command}" if reached else f"failed.{command}", len(reached))

    return run


async def pause_schedule(call: PageCall, form: Fields) -> Notice:
    """Pause a schedule, with a reason if one is given."""
    name, reason = name_in(form, "schedule"), form.text("reason", 500)
    await call.noted(
        About("pause", "schedule", name),
        lambda: call.client.schedules.apause(name, reason=reason or None),
    )
    return Notice("done.pause", detail=name)


def name_in(form: Fields, field: str) -> str:
    """Return the name that a field has; raise Misread if it has none."""
    name = form.text(field, 200)
    if not name:
        raise Misread("refused.no_name")
    return name
