"""The rule of docs/schedules.md, applied to every minute."""

from __future__ import annotations

from datetime import datetime

from tests.faults.cron_oracle.clock import MINUTE, Walk
from tests.faults.cron_oracle.line import Line


def ticks(line: Line, walk: Walk) -> list[datetime]:
    """Return the moments, in UTC, at which a line ticks during a walk, after its beginning."""
    minutes = walk[1:] if line.every_hour else first_reached(walk)
    return list(dict.fromkeys(moment for moment, local in minutes if line.fits(local)))


def first_reached(walk: Walk) -> Walk:
    """Return all local minutes of a walk with the moment at which the clock reached or passed them.

    One that is repeated has the first moment, and one that is skipped that after the gap.
    """
    found = []
    _, reached = walk[0]
    for moment, shown in walk[1:]:
        while reached < shown:
            reached = min(reached.replace(second=0) + MINUTE, shown)
            found.append((moment, reached))
    return found
