"""A web application with a worker in its lifespan, whose code changes while it serves."""

import asyncio
import os

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from mutirao import Mutirao

VERSION = 1

jobs = Mutirao(os.environ["JOBS"])


@jobs.task
async def slow() -> int:
    """Never end in the first version, so that a reload meets it while it runs."""
    if VERSION == 1:
        await asyncio.Event().wait()
    return VERSION


async def place(request: object) -> JSONResponse:
    """Enqueue a job."""
    return JSONResponse({"id": (await slow.aenqueue()).id})


web = Starlette(
    routes=[Route("/jobs", place, methods=["POST"])],
    lifespan=jobs.lifespan(worker=True, grace=0.1, heartbeat=0.5, expiry=1.5, concurrency=2),
)
