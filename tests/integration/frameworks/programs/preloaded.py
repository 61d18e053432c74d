"""An application that uses its database while it is imported, by gunicorn before it forks."""

import os

from flask import Flask

from mutirao import Mutirao

web = Flask(__name__)
jobs = Mutirao(os.environ["JOBS"])


@jobs.task
def touch() -> None:
    """Do nothing."""


touch.enqueue()
jobs.jobs()


@web.post("/jobs")
def place() -> dict[str, int]:
    """Enqueue, and count what is there."""
    touch.enqueue()
    return {"jobs": len(jobs.jobs()), "process": os.getpid()}
