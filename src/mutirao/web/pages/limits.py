"""Limits, what runs within each, and what waits for it."""

from starlette.responses import Response

from mutirao.web.page import SitePage
from mutirao.web.visit import Visit

MOST = 300


async def show(visit: Visit) -> Response:
    """Show the limits; those for which jobs wait come first."""
    readings = visit.site.readings
    limits = await readings.get("limits", visit.desk.limits.alist)
    shown = sorted(limits, key=lambda each: (-each.parked, not each.paused, each.name))
    return visit.page(
        "limits.html", limits=shown[:MOST], left_out=max(0, len(shown) - MOST),
        age=readings.age("limits"),
    )  # fmt: skip


PAGE = SitePage(path="/limits", name="limits", show=show)
