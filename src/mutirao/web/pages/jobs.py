"""Jobs: those that a filter finds, newest first, a page at a time."""

from typing import Any

from starlette.responses import Response

from mutirao.errors import InvalidFilter
from mutirao.model.filters.filter import Filter, parse
from mutirao.model.filters.qualifiers import QUALIFIERS
from mutirao.model.jobs.job import JobState
from mutirao.web.page import SitePage
from mutirao.web.page_call import COLUMNS, PageCall
from mutirao.web.pages.queues import figures_of

PER_PAGE = 50
LONGEST_FILTER, LONGEST_CURSOR = 2_000, 500
STATES = (
    JobState.READY, JobState.RUNNING, JobState.SCHEDULED, JobState.BLOCKED,
    JobState.DEAD, JobState.SUCCEEDED, JobState.CANCELLED,
)  # fmt: skip


async def show(call: PageCall) -> Response:
    """Show the jobs of a filter, or the error in an invalid one."""
    text = call.query.text("q", LONGEST_FILTER)
    cursor = call.query.text("after", LONGEST_CURSOR) or None
    try:
        wanted = call.filter(text)
        found = await call.client.reading.asearch(
            wanted + parse(call.access.only), cursor=cursor, size=PER_PAGE
        )
    except InvalidFilter as unfit:
        return call.page(
            "jobs.html", 400, text=text, unfit=unfit, found=None, tabs=await _tabs(call, Filter()),
            chosen="", qualifiers=QUALIFIERS, columns=COLUMNS, cursor=None,
        )  # fmt: skip
    return call.page(
        "jobs.html", text=str(wanted), unfit=None, found=found, tabs=await _tabs(call, wanted),
        chosen=_state_of(wanted), qualifiers=QUALIFIERS, columns=COLUMNS, cursor=cursor,
    )  # fmt: skip


async def _tabs(call: PageCall, wanted: Filter) -> list[dict[str, Any]]:
    """Return a tab for all states and for each, with its filter.

    The number of jobs stands in it where no other filter is given, as only then it is known.
    """
    rest = wanted.without("state")
    known = not rest and not call.access.only
    figures = await figures_of(call) if known else []
    more = any(each.at_least for each in figures)
    tabs: list[dict[str, Any]] = [{"state": "", "q": str(rest), "jobs": None, "more": False}]
    for state in STATES:
        number = sum(each.jobs for each in figures if each.state is state) if known else None
        tabs.append(
            {"state": str(state), "q": str(rest.having("state", str(state))), "jobs": number,
             "more": more}
        )  # fmt: skip
    return tabs


def _state_of(wanted: Filter) -> str:
    """Return the one state that a filter asks for; empty if it does not."""
    for state in STATES:
        if str(wanted) == str(wanted.having("state", str(state))):
            return str(state)
    return "" if wanted == wanted.without("state") else "some"


PAGE = SitePage(path="/jobs", name="jobs", show=show, whole=False)
