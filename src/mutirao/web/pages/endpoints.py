"""Endpoints: where webhooks go, whether they arrive, and what is held. Without their secrets."""

from starlette.responses import Response

from mutirao.model.blanking import BLANK
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

MOST = 300


async def show(call: PageCall) -> Response:
    """Show the endpoints; those in trouble come first."""
    readings = call.site.readings
    found = await readings.get("endpoints", call.client.endpoints.alist)
    shown = sorted(found, key=lambda each: (each.breaker == "closed", -each.held, each.id))

    def failure(text: str | None) -> str:
        return call.site.blanking.text(text or "") if call.access.contents else BLANK

    return call.page(
        "endpoints.html", endpoints=shown[:MOST], left_out=max(0, len(shown) - MOST),
        failure=failure, age=readings.age("endpoints"),
    )  # fmt: skip


PAGE = SitePage(path="/endpoints", name="endpoints", show=show)
