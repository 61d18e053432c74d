"""Workers: which are alive, what each serves, and what it runs since when."""

from collections import defaultdict
from typing import Any

from starlette.responses import Response

from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

RUNNING_SHOWN = 500


async def show(call: PageCall) -> Response:
    """Show the workers, the live ones first."""
    readings, client = call.site.readings, call.client
    workers = await readings.get("workers", client.aworkers)
    running = await readings.get("running", lambda: client.reading.arunning(limit=RUNNING_SHOWN))
    runs: dict[int | None, list[Any]] = defaultdict(list)
    for each in running:
        runs[each.worker].append(each)
    shown = sorted(workers, key=lambda each: (not each.alive, each.id))
    return call.page(
        "workers.html", workers=shown, runs=runs, age=readings.age("workers"),
        versions={each.app_version or each.version for each in workers if each.alive},
    )  # fmt: skip


PAGE = SitePage(path="/workers", name="workers", show=show)
