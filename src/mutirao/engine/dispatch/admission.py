"""Decides which claimed jobs a worker starts: those of its tasks, and one suspect at a time.

A suspect is a job with which workers were lost. Only one of several suspects causes the losses, and
it must not take the others with it every time: so one runs, and the others wait and run one after
another. The store, or the broker that has it, decides about a job that is not admitted.
"""

from collections.abc import Collection, Iterable
from logging import WARNING

from mutirao.log import log
from mutirao.model.jobs import lost_workers

MOST_LOGGED = 1_000  # names that brokers' messages had, which may be any


class ServedTasks:
    """The tasks that a worker serves. Jobs of other tasks are left to other workers; logged once.

    Parameters:
        names: those of its tasks; tasks that are registered later are added.
        left: names of tasks that need no log line; those that were logged are added.
        most: so many are remembered, and no more are logged; None: all, as claims leave them out.
    """

    def __init__(
        self, names: Collection[str], left: set[str] | None = None, most: int | None = None
    ) -> None:
        self.names, self._most = names, most
        self.left: set[str] = set() if left is None else left

    def _is_full(self) -> bool:
        return self._most is not None and len(self.left) >= self._most

    def leave(
        self, tasks: Iterable[str], then: str = "left to other workers", level: int = WARNING
    ) -> None:
        """Log the tasks that were not logged before; `then`: what happens to their jobs."""
        if self._is_full() or not (new := {*tasks} - self.left):
            return
        self.left |= new
        log.say(level, "no such task here: %s; %s", ", ".join(sorted(new)), then)
        if self._is_full():
            log.say(level, "%s such tasks were logged; others are not any more", len(self.left))


class SuspectTurn:
    """Lets one suspect run, and delays the others of a batch.

    Parameters:
        taken: whether this process has one already.
        later: how many were delayed before since one started.
    """

    def __init__(self, taken: bool, later: int = 0) -> None:
        self._taken, self.later = taken, later

    def take(self) -> bool:
        """Return whether the next suspect may run; it takes the turn then."""
        free, self._taken = not self._taken, True
        return free

    def wait(self) -> float:
        """Return the seconds until the next of the other suspects is due again."""
        self.later += 1
        return lost_workers.postponed_for(self.later)
