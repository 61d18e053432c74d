"""Two processes of gunicorn, with a worker of jobs in each: started after the fork, and stopped."""

from typing import Any

workers, threads = 2, 4
graceful_timeout = 40  # longer than the `grace` of the worker of jobs, which is 30


def post_worker_init(process: Any) -> None:
    """Start, once the application is loaded."""
    from bakery import worker

    worker.start()


def worker_exit(server: Any, process: Any) -> None:
    """Stop, after the last request."""
    from bakery import jobs, worker

    worker.stop()
    jobs.close()
