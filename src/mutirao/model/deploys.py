"""Decides which version of an application has taken over what a worker serves. Pure.

A version is numbers with dots between them, and may have the application's name before an @: only
versions of one name are compared. Versions have an order, and a deployment that goes back to older
code has a later one, too. The time of a worker's start would not do: a worker of the old version
that is restarted after a crash, beside the new ones, would be the newest of all.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

LONGEST_VERSION = 200  # characters
_VERSION = re.compile(r"(?:[^\s@]+@)?\d+(?:\.\d+)*", re.ASCII)

Lane = tuple[str, str | None]  # a queue, and a task in it; None: any task


@dataclass(frozen=True, slots=True)
class Served:
    """What a worker serves. `queues` and `tasks` None: all, of queues but `exclude_queues`."""

    queues: tuple[str, ...] | None = None
    exclude_queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] | None = None

    def has(self, queue: str, task: str | None = None) -> bool:
        """Return whether a queue is served, and that task in it."""
        of_queue = self.queues is None or queue in self.queues
        of_task = task is None or self.tasks is None or task in self.tasks
        return of_queue and queue not in self.exclude_queues and of_task


@dataclass(frozen=True, slots=True)
class Deployed:
    """The version of the application that a worker runs, and what it serves."""

    version: str
    serves: Served


def is_version(what: object) -> bool:
    """Return whether a value is a text that is a valid version."""
    if not isinstance(what, str) or len(what) > LONGEST_VERSION:
        return False
    return _VERSION.fullmatch(what) is not None


def named(version: str, name: str) -> str:
    """Return a version with this name of the application, unless it has one."""
    return version if "@" in version else f"{name}@{version}"


def is_newer(version: str, than: str) -> bool:
    """Return whether a version is newer than another: number by number, 1.10 than 1.9.

    A text that is no version, or one of another name, is neither newer nor older.
    """
    if not is_version(version) or not is_version(than) or _name(version) != _name(than):
        return False
    return _order(version) > _order(than)


def taken_over(version: str, mine: Collection[Lane], others: Iterable[Deployed]) -> str | None:
    """Return the newest version of those that have taken over all of `mine`; None: not yet.

    Parameters:
        version: that of a worker.
        mine: what it serves.
        others: what other workers run and serve.
    """
    newer = [each for each in others if is_newer(each.version, version)]
    served = all(any(each.serves.has(*lane) for each in newer) for lane in mine)
    return max((each.version for each in newer), key=_order) if newer and served else None


def _name(version: str) -> str:
    return version.rpartition("@")[0]


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.rpartition("@")[2].split(".")))
