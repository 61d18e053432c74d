"""Errors, grouped by task, class and message, with the jobs of each."""

from collections.abc import Iterable

from starlette.responses import Response

from mutirao.model.blanking import BLANK
from mutirao.model.filters.filter import parse
from mutirao.model.reading.figures import ErrorFigure
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

MOST = 100


async def show(call: PageCall) -> Response:
    """Show the errors that most jobs have."""
    readings = call.site.readings
    errors = await readings.get("error groups", lambda: call.client.reading.aerrors(limit=MOST), 10)
    blank = call.site.blanking.text

    def message(text: str | None) -> str:
        return blank(text or "") if call.access.contents else BLANK

    return call.page(
        "error_groups.html", errors=errors_of(call, errors), message=message, most=MOST,
        age=readings.age("error groups"),
    )  # fmt: skip


def errors_of(call: PageCall, errors: Iterable[ErrorFigure]) -> list[tuple[ErrorFigure, str]]:
    """Return errors, each with the filter of its jobs: without a message that is not shown."""
    found = []
    for each in errors:
        text = each.message or ""
        hidden = not call.access.contents or call.site.blanking.text(text) != text
        wanted = parse(each.filter)
        found.append((each, str(wanted.without("message") if hidden else wanted)))
    return found


PAGE = SitePage(path="/errors", name="errors", show=show)
