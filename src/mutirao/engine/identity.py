"""What a worker is registered with: where it runs, and how."""

import os
import socket

from mutirao.engine.settings import WorkerSettings
from mutirao.model.job import NewWorker


def identity(settings: WorkerSettings, version: str) -> NewWorker:
    """Return the facts of a worker in this process."""
    host, pid = socket.gethostname(), os.getpid()
    return NewWorker(
        name=f"{host}:{pid}",
        host=host,
        pid=pid,
        queues=settings.queues,
        exclude_queues=settings.exclude_queues or (),
        tasks=settings.tasks,
        concurrency=settings.concurrency,
        version=version,
    )
