"""What the store holds, for Prometheus, from the process of the dashboard: `/metrics`.

It is asked as the API is: a client that may see all jobs may scrape it, by the token of a program.
"""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from mutirao.web.access import Decide, Permission, check, decided
from mutirao.web.api import problems

if TYPE_CHECKING:
    from mutirao.telemetry.prometheus.store_metrics import StoreMetrics
    from mutirao.web.site import Site

PATH = "/metrics"


class SiteMetrics:
    """The metrics of a site's store."""

    def __init__(self, site: "Site", access: Decide) -> None:
        self._site, self._access = site, access
        self._metrics: StoreMetrics | None = None

    async def scraped(self, request: Request) -> Response:
        """Answer a scrape."""
        try:
            check(await decided(self._access, request), Permission.READ, whole=True)
            reply = await self._of_store().scraped(request.headers.get("accept", ""))
        except Exception as error:  # noqa: BLE001 (it becomes a problem, and what is new is logged)
            return problems.answer(error, self._site.blanking, request.url.path)
        return Response(reply.body, reply.status, {"cache-control": "no-store"}, reply.content_type)

    def _of_store(self) -> "StoreMetrics":
        """Return the readings; made with the first scrape, in the loop that serves."""
        if self._metrics is None:
            from mutirao.telemetry.prometheus.store_metrics import StoreMetrics

            desk = self._site.client
            queues = {task.options.queue for task in desk.tasks.values()}
            self._metrics = StoreMetrics(desk.store, queues, transports=desk.transports)
        return self._metrics
