"""Check-ins at Sentry for jobs that schedules make: begun, done, or dead.

The check-ins of a job have one id, made of the job: whichever worker runs its attempts, they are
about the same tick. A failure that is tried again is none of the schedule.
"""

import asyncio
import hashlib
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from time import monotonic
from typing import Any

from sentry_sdk.crons import capture_checkin

from mutirao.errors import MutiraoError
from mutirao.log import log
from mutirao.model.jobs.job import Job
from mutirao.model.jobs.states import OutcomeKind
from mutirao.model.schedules.schedule import Schedule, ScheduleRecord

LOOK_EVERY = 300.0  # seconds between two looks at the schedules that were put at run time
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
        declared: the schedules in the code, each with what else belongs to it.
        listed: lists all of them, also those that were put at run time. It is asked when such a
            one makes a job, now and then, beside the attempts: the first check-in of a process may
            be without a configuration, as it waits for nothing.
        monitor: more of the configuration of each monitor.
    """

    def __init__(
        self,
        declared: Iterable[tuple[Schedule, Any, Any]],
        listed: Callable[[], Awaitable[Iterable[ScheduleRecord]]],
        monitor: Mapping[str, Any],
    ) -> None:
        self._declared, self._listed, self._monitor = declared, listed, monitor
        self._put: Mapping[str, ScheduleRecord] = {}
        self._looking: asyncio.Task[None] | None = None
        self._next_look = 0.0

    def begun(self, job: Job) -> Callable[[OutcomeKind], None] | None:
        """Check in for an attempt that begins; return a function to call with its outcome.

        None: no schedule has made the job, or one that Sentry cannot watch: each few seconds.
        """
        if job.schedule is None:
            return None
        name = job.schedule.name
        if (config := self._config(name)) is None:
            return None
        told: dict[str, Any] = {
            "monitor_slug": slug_of(name),
            "check_in_id": uuid.uuid5(uuid.NAMESPACE_URL, f"{job.database}#{job.id}").hex,
        }
        if job.attempt == 1:
            told["monitor_config"] = config or None
            capture_checkin(status="in_progress", **told)
        return _Ending(told, job.attempt, lambda: self._config(name))

    def _config(self, name: str) -> dict[str, Any] | None:
        """Return the configuration of a monitor, as far as is known; None: it is not watched."""
        found: Schedule | ScheduleRecord | None
        found = next((each for each, *_ in self._declared if each.name == name), None)
        if found is None and (found := self._put.get(name)) is None:
            self._look()
            return {}
        config = config_of(found)
        return config and {**config, **self._monitor}

    def _look(self) -> None:
        if monotonic() >= self._next_look and (self._looking is None or self._looking.done()):
            self._next_look = monotonic() + LOOK_EVERY
            self._looking = asyncio.get_running_loop().create_task(self._list())

    async def _list(self) -> None:
        try:
            self._put = {each.name: each for each in await self._listed()}
        except MutiraoError as error:
            log.warning("schedules cannot be listed; Sentry is told no more of them: %s", error)


class _Ending:
    """Checks in when an attempt has ended the job.

    Parameters:
        told: the id of the check-in.
        attempt: the number of the attempt.
        config: returns the configuration of the monitor, as it is known by then.
    """

    def __init__(
        self,
        told: dict[str, Any],
        attempt: int,
        config: Callable[[], dict[str, Any] | None],
    ) -> None:
        self._told, self._since, self._attempt = told, monotonic(), attempt
        self._config = config

    def __call__(self, kind: OutcomeKind) -> None:
        if kind.final and (config := self._config()) is not None:
            # Only of the first attempt it is known how long it all took; else Sentry counts.
            took = monotonic() - self._since if self._attempt == 1 else None
            status = "error" if kind is OutcomeKind.DEAD else "ok"
            self._told["monitor_config"] = config or None
            capture_checkin(status=status, duration=took, **self._told)


def config_of(schedule: Schedule | ScheduleRecord) -> dict[str, Any] | None:
    """Return the configuration of a schedule's monitor; None if Sentry has no such schedules."""
    if schedule.cron is not None:
        if len(schedule.cron.split()) > 5:  # seconds first
            return None
        timing: dict[str, Any] = {"type": "crontab", "value": schedule.cron}
        return {"schedule": timing, "timezone": schedule.timezone}
    every = schedule.every
    if every is not None and not isinstance(every, timedelta):  # in seconds, as it is listed
        every = timedelta(seconds=every)
    for unit, length in _UNITS:
        if every is not None and not every % length:
            value = every // length
            return {"schedule": {"type": "interval", "value": value, "unit": unit}}
    return None


def slug_of(name: str) -> str:
    """Return the monitor's name for a schedule, which allows fewer characters."""
    slug = _OTHER.sub("-", name.lower()).strip("-") or "schedule"
    if len(slug) <= LONGEST_SLUG:
        return slug
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{slug[: LONGEST_SLUG - 9]}-{digest}"
