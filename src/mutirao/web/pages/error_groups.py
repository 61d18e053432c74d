"""Errors, grouped by task, class and message, with the jobs of each."""

from starlette.responses import Response

from mutirao.model.blanking import BLANK
from mutirao.web.page import Page
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
        "error_groups.html", errors=errors, message=message, most=MOST,
        age=readings.age("error groups"),
    )  # fmt: skip


PAGE = Page(path="/errors", name="errors", show=show)
