"""The facts that a worker registers with, and the answer to its heartbeat."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorker:
    """A worker's description of itself when it registers.

    `queues` None: it serves all queues, but `exclude_queues`. `tasks` None: it serves all tasks of
    its application. `concurrency` 0: it relays, and runs no job. `version`: of this package;
    `app_version`: of the application, if it was given.
    """

    name: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    concurrency: int
    version: str
    exclude_queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] | None = None
    app_version: str | None = None


class Beat(NamedTuple):
    """The answer to a heartbeat: whether the worker is still registered, and what to cancel."""

    alive: bool
    cancelled: tuple[tuple[int, int], ...]  # (job id, run)
    held_elsewhere: float = 0.0  # seconds for which another worker holds the named duty
