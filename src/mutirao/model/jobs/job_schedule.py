"""The schedule that made a job, as its handler sees it: `job.schedule`."""

from collections.abc import Mapping
from typing import Any, Protocol

from mutirao.errors import WrongState


class SchedulePauser(Protocol):
    """Pauses schedules for handlers, each call in a transaction of its own."""

    def pause(self, name: str, reason: str) -> None:
        """Pause a schedule, from a plain handler."""
        ...

    async def apause(self, name: str, reason: str) -> None:
        """Pause a schedule, from a coroutine."""
        ...


class JobSchedule:
    """The schedule that made a job; `name` is its name."""

    __slots__ = ("_by", "_pauser", "name")

    def __init__(self, name: str, by: str, pauser: SchedulePauser | None) -> None:
        """Set the parts; `by` describes the job in the reason for a pause."""
        self.name = name
        self._by, self._pauser = by, pauser

    def __repr__(self) -> str:
        return f"<JobSchedule {self.name!r}>"

    def pause(self, reason: str = "") -> None:
        """Pause the schedule at once, whatever the outcome of this attempt is, in a plain handler.

        It makes no jobs until it is resumed; a deploy leaves it paused. The list of schedules shows
        the job and the reason. To pause it in the commit that ends the job, raise
        `Cancel(…, schedule=True)` instead.

        Raises:
            UnknownSchedule: it was removed.
            WrongState: the handler runs in a process of its own, or in the event loop.
        """
        self._found().pause(self.name, self._reason(reason))

    async def apause(self, reason: str = "") -> None:
        """Pause the schedule at once, in a coroutine; see `pause`."""
        await self._found().apause(self.name, self._reason(reason))

    def _found(self) -> SchedulePauser:
        if self._pauser is None:
            raise WrongState(
                f"the schedule {self.name!r} cannot be paused from here: the handler runs in a"
                " process of its own, or in a test without a worker; raise"
                " Cancel(…, schedule=True), which ends the job, too"
            )
        return self._pauser

    def _reason(self, reason: str) -> str:
        return f"{self._by}: {reason}" if reason else self._by


def schedule_of(
    metadata: Mapping[str, Any], job: int, pauser: SchedulePauser | None
) -> JobSchedule | None:
    """Return the schedule that a job's metadata names; None if no schedule made it."""
    name = metadata.get("schedule")
    return JobSchedule(name, f"job {job}", pauser) if isinstance(name, str) else None
