"""Workers: which are alive, what each serves, and what it runs since when."""

from collections import defaultdict
from typing import Any

from starlette.responses import Response

from mutirao.web.page import SitePage
from mutirao.web.visit import Visit

RUNNING_SHOWN = 500


async def show(visit: Visit) -> Response:
    """Show the workers, the live ones first."""
    readings, desk = visit.site.readings, visit.desk
    workers = await readings.get("workers", desk.aworkers)
    running = await readings.get("running", lambda: desk.reading.arunning(limit=RUNNING_SHOWN))
    runs: dict[int | None, list[Any]] = defaultdict(list)
    for each in running:
        runs[each.worker].append(each)
    shown = sorted(workers, key=lambda each: (not each.alive, each.id))
    return visit.page(
        "workers.html", workers=shown, runs=runs, age=readings.age("workers"),
        versions={each.app_version or each.version for each in workers if each.alive},
    )  # fmt: skip


PAGE = SitePage(path="/workers", name="workers", show=show)
