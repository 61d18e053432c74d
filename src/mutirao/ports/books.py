"""What a store keeps beside jobs and workers, as a protocol: schedules, limits, graphs, results.

The rest, and what `now` means, is in `mutirao.ports`.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from mutirao.limit import LimitRecord, Origin, Rule
from mutirao.records import Ending, GraphRecord, GraphState, Progress
from mutirao.schedule import Agenda, Amend, Amended, ScheduleRecord


class Books(Protocol):
    """What is written down beside jobs; a part of `mutirao.ports.Store`."""

    # Schedules. What becomes of one is decided by the functions of `mutirao.timetable`.

    async def agenda(self, *, now: datetime | None = None) -> Agenda:
        """Tell which schedules have something to do, and when the next one will.

        Due are those not paused whose next tick has come, or that await the end of a job which is
        not live any more; of very many the first. Reads only.
        """
        ...

    async def amend_schedule(
        self, name: str, amend: Amend, *, wait: bool = True, now: datetime | None = None
    ) -> Amended:
        """Hold a schedule, ask `amend` what becomes of it, and write that: one transaction.

        `amend` is given how the schedule stands, with everything that was committed before it was
        held and with the time; it may be called again if another one made a schedule of that name
        at the same moment. What it raises reaches the caller, and nothing is written. Its jobs
        are enqueued as ever, idle workers are woken, and each of them is written down with its
        tick: there is never a second job of a tick. With `wait` False a schedule that somebody
        else holds is left alone, as if there were none, and `amend` may change nothing then.

        Raises:
            WrongState: a tick has its job already; nothing was written.
        """
        ...

    async def vouch(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Note that a worker has schedules of these names in its code.

        Only of schedules that code declared, and where the last note is older than `every`
        seconds; of one that somebody else holds, another time.
        """
        ...

    async def schedules(self) -> list[ScheduleRecord]:
        """List the schedules by name, with their next ticks and how their last jobs went."""
        ...

    # Limits; see `mutirao.limit`. Of any queue, task or value of an argument that is limited, at no
    # moment do more jobs run than may, whoever claims them; a rate never lets start more than its
    # burst and what has come since. A job that all its limits have no room for is not claimed: it
    # is `blocked`, and costs nothing until there is room. What is held by a run ends with the run.

    async def put_limit(
        self,
        rule: Rule,
        *,
        origin: Origin = Origin.COMMAND,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Make a limit, or give the one of that name other terms; in force when this returns.

        What runs already is counted. With `origin` CODE, a worker says what its code has: that
        changes a limit that is there only if the code says something new.
        """
        ...

    async def remove_limit(self, name: str, *, now: datetime | None = None) -> bool:
        """Remove a limit, and let go what waited for it; tell whether there was one."""
        ...

    async def vouch_limits(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Note that a worker has limits of these names in its code; as `vouch` of schedules."""
        ...

    async def limits(self) -> list[LimitRecord]:
        """List the limits by name and key, with how full they are."""
        ...

    # Graphs, results, progress.

    async def graphs(
        self, state: GraphState | None = None, limit: int | None = 100
    ) -> list[GraphRecord]:
        """List graphs, newest first, without their steps."""
        ...

    async def graph(self, id: int) -> GraphRecord:
        """Return a graph with its steps, in the order of the plan, all of one moment.

        Raises UnknownGraph.
        """
        ...

    async def endings(self, jobs: Collection[int]) -> list[Ending]:
        """Tell how jobs stand, with their results; unknown ones are left out."""
        ...

    async def await_ends(self, jobs: Collection[int]) -> None:
        """Ask to be told, by the notifier of ends, when one of these jobs ends.

        Only of jobs that keep results or are steps is it told at once.
        """
        ...

    async def report(self, told: Collection[Progress], *, now: datetime | None = None) -> None:
        """Write how far attempts have come; what a later run of a job told stays."""
        ...
