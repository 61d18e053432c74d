"""What the tests of workers share: a worker, and words for how jobs ended."""

from __future__ import annotations

from typing import Any

from mutirao import JobRecord, JobState, Mutirao
from tests.support.engine import EmbeddedWorker
from tests.support.waiting import until

LIVE = {JobState.SCHEDULED, JobState.READY, JobState.BLOCKED, JobState.RUNNING}
# Seconds between polls. Longer than any deadline: what a test waits for must come by itself.
NEVER = 3_600.0
# For other tests: what is committed in the moment in which a busy worker begins to listen is not
# announced, and on a machine that stands still for a second that moment is long.
SOMETIMES = 5.0


def working(app: Mutirao, **settings: Any) -> EmbeddedWorker:
    """Return a worker of `app` that polls rarely."""
    return app.worker(**{"poll": SOMETIMES, **settings})


def never_polling(app: Mutirao, **settings: Any) -> EmbeddedWorker:
    """Return a worker of `app` that never polls."""
    return working(app, poll=NEVER, **settings)


async def ended(app: Mutirao, id: int) -> JobRecord:
    """Wait until a job is finished; return it with its attempts."""
    await until_state(app, id, *(set(JobState) - LIVE))
    return await app.ajob(id)


async def until_state(app: Mutirao, id: int, *states: JobState) -> JobRecord:
    """Wait until a job is in one of these states; return it."""

    async def there() -> JobRecord | None:
        record = await app.ajob(id)
        return record if record.state in states else None

    return await until(there)


async def until_attempts(app: Mutirao, id: int, number: int) -> JobRecord:
    """Wait until a job has so many attempts in history, and is not running; return it."""

    async def there() -> JobRecord | None:
        record = await app.ajob(id)
        done = len(record.attempts) >= number and record.state is not JobState.RUNNING
        return record if done else None

    return await until(there)


def outcomes(record: JobRecord) -> list[str]:
    """Return how a job's attempts ended, in their order."""
    return [str(each.outcome) for each in record.attempts]
