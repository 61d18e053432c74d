"""Hosts of federation: whether they answer, what waits for each, and what has died."""

from starlette.responses import Response

from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

MOST = 300


async def show(call: PageCall) -> Response:
    """Show the hosts; those in trouble come first."""
    readings = call.site.readings
    found = await readings.get("hosts", call.client.hosts.alist)
    shown = sorted(found, key=lambda each: (each.state == "up" and not each.held, -each.waiting))
    return call.page(
        "hosts.html", hosts=shown[:MOST], left_out=max(0, len(shown) - MOST),
        age=readings.age("hosts"),
    )  # fmt: skip


PAGE = SitePage(path="/hosts", name="hosts", show=show)
