"""Topics: who is told of what is published, and how far behind each is."""

from starlette.responses import Response

from mutirao.web.page import SitePage
from mutirao.web.visit import Visit

MOST = 300


async def show(visit: Visit) -> Response:
    """Show the subscriptions by topic."""
    readings = visit.site.readings
    found = await readings.get("subscriptions", visit.desk.subscriptions.alist)
    shown = sorted(found, key=lambda each: (each.topic, each.id))
    return visit.page(
        "subscriptions.html", subscriptions=shown[:MOST], left_out=max(0, len(shown) - MOST),
        age=readings.age("subscriptions"),
    )  # fmt: skip


PAGE = SitePage(path="/topics", name="topics", show=show)
