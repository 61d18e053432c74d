"""Topics: their subscriptions, and the lag of each."""

from starlette.responses import Response

from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

MOST = 300


async def show(call: PageCall) -> Response:
    """Show the subscriptions by topic."""
    readings = call.site.readings
    found = await readings.get("subscriptions", call.client.subscriptions.alist)
    shown = sorted(found, key=lambda each: (each.topic, each.id))
    return call.page(
        "subscriptions.html", subscriptions=shown[:MOST], left_out=max(0, len(shown) - MOST),
        age=readings.age("subscriptions"),
    )  # fmt: skip


PAGE = SitePage(path="/topics", name="topics", show=show)
