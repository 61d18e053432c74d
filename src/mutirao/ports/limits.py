"""The part of a store for limits, as a protocol.

The meaning of `now` is in `mutirao.ports.store`.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from mutirao.model.limits.limits import LimitOrigin

if TYPE_CHECKING:
    from mutirao.model.limits.limits import LimitRecord, Rule


class LimitsApi(Protocol):
    """`store.limits`; see `mutirao.model.limits.limits`.

    At no moment do more jobs of a limited queue, task or value of an argument run than the limit
    allows, whichever workers claim them. A rate never lets more jobs start than its burst plus the
    tokens that have arrived since. A job is claimed only if all of its limits have room; otherwise
    it is `blocked` and costs nothing until there is room. The slots that a run holds are released
    when the run ends.
    """

    async def put(
        self,
        rule: Rule,
        *,
        origin: LimitOrigin = LimitOrigin.COMMAND,
        worker: str | None = None,
        now: datetime | None = None,
    ) -> None:
        """Create a limit, or change the one of that name; it is in force when this returns.

        Jobs that run already are counted. With `origin` CODE, a worker declares a limit of its
        code: an existing limit changes only if the declaration differs from the last one.
        """
        ...

    async def remove(self, name: str, *, now: datetime | None = None) -> bool:
        """Remove a limit and release the jobs that waited for it; return whether it existed."""
        ...

    async def listed(self, most: int | None = None) -> list[LimitRecord]:
        """List the limits by name and key, with their current use.

        With `most`, only so many: those for which most jobs wait, and those that are paused.
        """
        ...

    async def paused_queues(self) -> list[str]:
        """List the paused queues, by name, without reading running or waiting jobs."""
        ...

    async def confirm_declared(
        self, names: Collection[str], worker: str, *, every: float, now: datetime | None = None
    ) -> None:
        """Record that a worker has limits of these names in its code.

        Only for those that were declared in code and whose last confirmation is older than `every`
        seconds. Those that another transaction has locked are skipped until the next call.
        """
        ...
