"""New values for waiting jobs: what people change in them before they run."""

from dataclasses import dataclass, fields
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """New values for jobs that wait; a field of None leaves the value as it is.

    At most one of `run_at` (aware) and `delay` (seconds, counted on the database's clock) is given.
    """

    priority: int | None = None
    queue: str | None = None
    run_at: datetime | None = None
    delay: float | None = None
    max_attempts: int | None = None

    @property
    def changes(self) -> bool:
        """True if any field is set."""
        return any(getattr(self, each.name) is not None for each in fields(self))
