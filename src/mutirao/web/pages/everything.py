"""All jobs that a filter means: how many there are, and what may be done to them."""

from starlette.responses import Response

from mutirao.model.filters.filter import parse
from mutirao.model.jobs.job import JobState
from mutirao.web.access import Permission, check
from mutirao.web.commands.on_everything import OFFERED
from mutirao.web.forms import Misread
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

COUNTED = 10_000  # jobs
FAILED = frozenset({JobState.DEAD, JobState.CANCELLED})
WINDOWS = 2  # of 20,000 jobs each, that are looked at


async def show(call: PageCall) -> Response:
    """Show how many jobs match, and ask for the action."""
    check(call.access, Permission.ACT)
    wanted = call.filter(call.query.text("q"))
    if not wanted:
        raise Misread("refused.no_filter")
    meant = (wanted + parse(call.access.only)).at(call.now)
    ended = meant.any_state and meant.any_state <= FAILED  # which an index knows
    number = await call.client.reading.ahow_many(
        meant, most=COUNTED, windows=1 if ended else WINDOWS
    )
    back = call.url("jobs", {"q": str(wanted)}) if call.access.only else call.url("audit")
    return call.page(
        "everything.html", text=str(wanted), number=number, commands=OFFERED, back=back
    )


PAGE = SitePage(path="/everything", name="everything", show=show, whole=False, listed=False)
