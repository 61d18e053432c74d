"""Workers: which are alive, what each serves, and how many jobs it holds."""

from datetime import datetime

import msgspec

from mutirao.web.access import Permission
from mutirao.web.api.call import ApiCall
from mutirao.web.api.operation import Answered, Operation
from mutirao.web.api.values import IdText, copied


class WorkerAnswer(msgspec.Struct, kw_only=True):
    """A worker. `queues`, `tasks` null: all of them; `late`: the longest delay of recent beats."""

    id: IdText
    name: str
    host: str
    pid: int
    queues: list[str] | None
    exclude_queues: list[str]
    tasks: list[str] | None
    concurrency: int
    running: int
    stuck: int
    late: float
    alive: bool
    version: str
    app_version: str | None
    started_at: datetime
    beat_at: datetime
    expires_at: datetime


class WorkerList(msgspec.Struct, kw_only=True):
    """All workers that are registered, by id."""

    workers: list[WorkerAnswer]


async def list_workers(call: ApiCall) -> Answered:
    """Answer all workers."""
    found = await call.site.readings.get("workers", call.client.aworkers)
    return Answered(
        WorkerList(workers=[copied(WorkerAnswer, each, id=str(each.id)) for each in found])
    )


OPERATIONS = (
    Operation(
        name="list_workers", method="GET", path="/workers", role=Permission.READ, run=list_workers,
        does="List the workers.", answer=WorkerList,
    ),
)  # fmt: skip
