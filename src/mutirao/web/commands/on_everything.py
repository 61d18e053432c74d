"""Commands on all jobs of a filter, in the background; the audit has their progress."""

from mutirao.model.audit.actions import Action, ActionKind, AuditRecord
from mutirao.model.filters.filter import parse
from mutirao.web.access import who
from mutirao.web.api.begun_actions import MOST_EXPECTED, Progress, begin, check_expected
from mutirao.web.api.problems import Conflict
from mutirao.web.commands.on_jobs import new_values
from mutirao.web.forms import Fields, Misread, id_in
from mutirao.web.page_call import Notice, PageCall

OFFERED = ("retry", "redrive", "change", "cancel", "delete")
BATCH = 500  # jobs, of which a transaction takes less than the time that a call has


async def everything(call: PageCall, form: Fields) -> Notice:
    """Begin an action on all jobs of a filter, if as many match as were shown."""
    kind = ActionKind(form.one_of("action", *OFFERED))
    which = call.filter(form.text("q"))
    if not which:
        raise Misread("refused.no_filter")
    new = new_values(call, form) if kind is ActionKind.CHANGE else None
    if isinstance(new, Notice):
        return new
    everything, expected = which + parse(call.access.only), _expected(form)

    async def run(progress: Progress) -> AuditRecord:
        return await call.client.actions.arun(
            Action(kind, new), everything, by=who(call.access), expected=expected, batch=BATCH,
            progress=progress, is_stopping=call.site.background.is_closing,
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


async def stop(call: PageCall, form: Fields) -> Notice:
    """Stop an action on many jobs after its batch, wherever it runs."""
    id = id_in(form.text("action", 20))
    stopped = await call.client.actions.astop(id)
    return Notice("done.stop" if stopped else "failed.stop", detail=str(id))


def _expected(form: Fields) -> int | None:
    """Return the number of jobs that the page showed; None: it did not count them to the end."""
    text = form.text("expected", 20)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) <= MOST_EXPECTED):
        raise Misread("refused.bad_field")
    return int(text)
