"""Hosts of federation that have failed or were held: whether they answer, and why not.

Their deliveries are not counted, as that would look at all live jobs: a link finds them.
"""

from starlette.responses import Response

from mutirao.model.federation.hosts import BY, DELIVER
from mutirao.model.filters.qualifiers import quoted
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

MOST = 300


async def show(call: PageCall) -> Response:
    """Show the hosts; those in trouble come first."""
    readings = call.site.readings
    found = await readings.get("hosts", lambda: call.client.hosts.alist(counted=False))
    shown = sorted(found, key=lambda each: (each.state == "up" and not each.held, each.name))
    return call.page(
        "hosts.html", hosts=shown[:MOST], deliveries=_deliveries,
        left_out=max(0, len(shown) - MOST),
        age=readings.age("hosts"),
    )  # fmt: skip


def _deliveries(name: str) -> str:
    """Return the filter of the deliveries to a host."""
    return f"task:{DELIVER} arg.{BY}:{quoted(name)}"


PAGE = SitePage(path="/hosts", name="hosts", show=show)
