"""Extra output of the endpoint commands: an answer, missed publications, refused URLs."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

from mutirao.app import Mutirao
from mutirao.cli.output import say
from mutirao.errors import ConfigurationError, JobDied, ResultMissing, UnsafeUrl
from mutirao.model.jobs.records import JobRecord
from mutirao.model.webhooks.endpoints import EndpointRecord, subscription_of

HANDED_OUT_WITHIN = timedelta(hours=1)


async def answered(app: Mutirao, id: str, timeout: float) -> JobRecord:
    """Send a sample to an endpoint, and return its job once it has ended.

    Raises:
        ResultTimeout: it has not ended in time: no worker delivers, or it is held.
        JobCancelled: it was cancelled.
    """
    sample = await app.endpoints.atest(id)
    with suppress(JobDied, ResultMissing):  # the job has the result
        await sample.aresult(timeout)
    return await app.ajob(sample.id)


def answer_of(job: JobRecord) -> dict[str, Any]:
    """Return the result of the attempt of a job that sends a sample."""
    last = job.attempts[-1] if job.attempts else None
    took = None if last is None else (last.finished_at - last.started_at).total_seconds() * 1_000
    return {
        "job": job.id,
        "state": job.state,
        "status": None if last is None else last.status,
        "milliseconds": None if took is None else round(took),
        "error": job.error,
    }


def print_missed(before: EndpointRecord) -> None:
    """Explain how to send publications of the time when an endpoint was disabled: none was held."""
    if before.active or before.disabled_at is None:
        return
    # What was published shortly before may not have been handed out by then; --missing knows.
    since = max(before.created_at, before.disabled_at - HANDED_OUT_WITHIN).isoformat()
    say(
        "mutirao: what was published while it was disabled is not sent by itself: `mutirao replay"
        f" {subscription_of(before.id)} --since {since} --missing` sends it",
        error=True,
    )


def warn_of_url(url: str) -> None:
    """Warn that workers refuse a URL as it is written, unless their settings allow it."""
    try:
        from mutirao.webhooks.guard import Guard
    except ConfigurationError as missing:
        say(f"mutirao: whether workers call this URL was not looked at: {missing}", error=True)
        return
    try:
        Guard().check(url)
    except UnsafeUrl as unsafe:
        say(
            f"mutirao: workers do not call this URL unless their options say so: {unsafe}",
            error=True,
        )
