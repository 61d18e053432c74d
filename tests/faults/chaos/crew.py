"""The workers of a chaos: which application they run, and what they say of runs that were stale."""

from __future__ import annotations

from pathlib import Path

from tests.faults.kit.crew import Crew

HEARTBEAT, EXPIRY, GRACE = 0.5, 2.0, 30.0  # seconds; the last to end at the end
TOO_LATE = "was taken from this"  # what a worker says when the store rejects a run as stale


class ChaosCrew(Crew):
    """Workers on the database at `url`; what they say goes to files in `logs`.

    `broker`: the URL of one, None without. Whatever happens to the database and the broker, they
    must not end by themselves, once they have started.
    """

    def __init__(self, url: str, logs: Path, broker: str | None = None) -> None:
        environment = {"CHAOS_DATABASE": url}
        if broker is not None:
            environment["CHAOS_BROKER"] = broker
        settings = {
            "concurrency": 10,
            "heartbeat": HEARTBEAT,
            "expiry": EXPIRY,
            "poll": 0.5,
            "grace": GRACE,
            "doorbell_grace": EXPIRY,
        }
        super().__init__(f"{__package__}.app:app", environment, logs, settings, unreachable=True)

    def rejected(self) -> set[tuple[int, int]]:
        """Return (job, run) of what workers brought too late, and were refused."""
        said = (each for each in self.said() if "job" in each)
        return {(each["job"], each["run"]) for each in said if TOO_LATE in each["message"]}
