"""Whether the program answers, and whether it can work: for what starts and restarts it.

No caller has to sign in, and none learns more than yes or no.
"""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mutirao.errors import MutiraoError
from mutirao.log import log

if TYPE_CHECKING:
    from mutirao.web.site import Site

LIVE, READY = "/livez", "/readyz"
FRESH_FOR = 1.0  # seconds; more frequent requests cause no more queries


async def live(request: Request) -> Response:
    """Answer that the process answers."""
    return JSONResponse({"status": "ok"})


async def ready(site: "Site") -> Response:
    """Answer whether the database can be used, and has the tables of this version."""
    try:
        await site.readings.get("ready", site.ready, FRESH_FOR)
    except MutiraoError as error:
        log.warning("the dashboard is not ready: %s", error)
        return JSONResponse({"status": "unavailable"}, 503)
    return JSONResponse({"status": "ok"})
