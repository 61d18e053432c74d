"""The facts that a worker registers: where it runs, and with which settings."""

import os
import socket

from mutirao.engine.settings import WorkerSettings
from mutirao.model.jobs.job import NewWorker


def identity(settings: WorkerSettings, version: str) -> NewWorker:
    """Return the facts of a worker in this process."""
    host, pid = socket.gethostname(), os.getpid()
    return NewWorker(
        name=worker_name(),
        host=host,
        pid=pid,
        queues=settings.queues,
        exclude_queues=settings.exclude_queues or (),
        tasks=settings.tasks,
        concurrency=settings.concurrency,
        version=version,
        app_version=settings.app_version,
    )


def worker_name() -> str:
    """Return the name of a worker in this process, for people."""
    return f"{socket.gethostname()}:{os.getpid()}"
