"""Limits, what runs within each, and what waits for it."""

from starlette.responses import Response

from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

MOST = 300


async def show(call: PageCall) -> Response:
    """Show the limits; those for which jobs wait come first."""
    readings = call.site.readings
    limits = await readings.get("limits", call.client.limits.alist)
    shown = sorted(limits, key=lambda each: (-each.parked, not each.paused, each.name))
    return call.page(
        "limits.html", limits=shown[:MOST], left_out=max(0, len(shown) - MOST),
        age=readings.age("limits"),
    )  # fmt: skip


PAGE = SitePage(path="/limits", name="limits", show=show)
