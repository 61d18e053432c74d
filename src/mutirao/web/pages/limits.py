"""Limits, what runs within each, and what waits for it."""

from starlette.responses import Response

from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

MOST = 300


async def show(call: PageCall) -> Response:
    """Show the limits; those for which jobs wait come first."""
    readings = call.site.readings
    limits = await readings.get("limits", lambda: call.client.limits.alist(most=MOST + 1))
    return call.page(
        "limits.html", limits=limits[:MOST], more=MOST if len(limits) > MOST else 0,
        age=readings.age("limits"),
    )  # fmt: skip


PAGE = SitePage(path="/limits", name="limits", show=show)
