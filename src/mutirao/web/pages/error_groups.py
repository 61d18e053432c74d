"""Errors, grouped by task, class and message, with the jobs of each."""

from collections.abc import Iterable

from starlette.responses import Response

from mutirao.model.blanking import BLANK
from mutirao.model.filters.filter import parse
from mutirao.model.reading.figures import ErrorFigure
from mutirao.web.page import SitePage
from mutirao.web.visit import Visit

MOST = 100


async def show(visit: Visit) -> Response:
    """Show the errors that most jobs have."""
    readings = visit.site.readings
    errors = await readings.get("error groups", lambda: visit.desk.reading.aerrors(limit=MOST), 10)
    blank = visit.site.blanking.text

    def message(text: str | None) -> str:
        return blank(text or "") if visit.access.contents else BLANK

    return visit.page(
        "error_groups.html", errors=errors_of(visit, errors), message=message, most=MOST,
        age=readings.age("error groups"),
    )  # fmt: skip


def errors_of(visit: Visit, errors: Iterable[ErrorFigure]) -> list[tuple[ErrorFigure, str]]:
    """Return errors, each with the filter of its jobs: without a message that is not shown."""
    found = []
    for each in errors:
        text = each.message or ""
        hidden = not visit.access.contents or visit.site.blanking.text(text) != text
        wanted = parse(each.filter)
        found.append((each, str(wanted.without("message") if hidden else wanted)))
    return found


PAGE = SitePage(path="/errors", name="errors", show=show)
