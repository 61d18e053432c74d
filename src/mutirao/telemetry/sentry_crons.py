"""Check-ins at Sentry for jobs that schedules make: begun, done, or dead.

The check-ins of a job have one id, made of the job: whichever worker runs its attempts, they are
about the same tick. A failure that is tried again is none of the schedule.
"""

import hashlib
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from time import monotonic
from typing import Any

from sentry_sdk.crons import capture_checkin

from mutirao.model.jobs.job import Job
from mutirao.model.jobs.states import OutcomeKind
from mutirao.model.schedules.schedule import Schedule

LONGEST_SLUG = 50
_OTHER = re.compile(r"[^a-z0-9_-]+")
_UNITS = (
    ("week", timedelta(weeks=1)),
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
)


class CheckIns:
    """The check-ins of an application's schedules.

    Parameters:
        declared: the schedules in the code, each with what else belongs to it. Of others, which
            were put at run time, Sentry is told no configuration: their monitors are made there.
        monitor: more of the configuration of each monitor.
    """

    def __init__(
        self, declared: Iterable[tuple[Schedule, Any, Any]], monitor: Mapping[str, Any]
    ) -> None:
        self._declared, self._monitor = declared, monitor

    def begun(self, job: Job) -> Callable[[OutcomeKind], None] | None:
        """Check in for an attempt that begins; return what is called with its outcome.

        None: no schedule has made the job, or one that Sentry cannot watch: each few seconds.
        """
        if job.schedule is None:
            return None
        found = [each for each, *_ in self._declared if each.name == job.schedule.name]
        config = config_of(found[0]) if found else {}
        if config is None:
            return None
        told: dict[str, Any] = {
            "monitor_slug": slug_of(job.schedule.name),
            "check_in_id": uuid.uuid5(uuid.NAMESPACE_URL, f"{job.database}#{job.id}").hex,
            "monitor_config": {**config, **self._monitor} if config else None,
        }
        if job.attempt == 1:
            capture_checkin(status="in_progress", **told)
        return _Ending(told, job.attempt)


class _Ending:
    """Checks in when an attempt has ended the job."""

    def __init__(self, told: dict[str, Any], attempt: int) -> None:
        self._told, self._since, self._attempt = told, monotonic(), attempt

    def __call__(self, kind: OutcomeKind) -> None:
        if kind.final:
            # Only of the first attempt it is known how long it all took; else Sentry counts.
            took = monotonic() - self._since if self._attempt == 1 else None
            status = "error" if kind is OutcomeKind.DEAD else "ok"
            capture_checkin(status=status, duration=took, **self._told)


def config_of(schedule: Schedule) -> dict[str, Any] | None:
    """Return a schedule as the configuration of a monitor; None if Sentry has no such schedules."""
    if schedule.cron is not None:
        if len(schedule.cron.split()) > 5:  # seconds first
            return None
        timing: dict[str, Any] = {"type": "crontab", "value": schedule.cron}
        return {"schedule": timing, "timezone": schedule.timezone}
    for unit, length in _UNITS:
        if schedule.every is not None and not schedule.every % length:
            value = schedule.every // length
            return {"schedule": {"type": "interval", "value": value, "unit": unit}}
    return None


def slug_of(name: str) -> str:
    """Return the name of a schedule as that of a monitor, which has fewer characters."""
    slug = _OTHER.sub("-", name.lower()).strip("-") or "schedule"
    if len(slug) <= LONGEST_SLUG:
        return slug
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{slug[: LONGEST_SLUG - 9]}-{digest}"
