"""The workers of a hammer: which application they run, and what they say of their database."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.faults.kit.crew import Crew

SETTINGS = {"heartbeat": 2.0, "expiry": 10.0, "poll": 0.5, "grace": 20.0}  # seconds
_TROUBLE = re.compile(r"deadlock|serializ|not to be had|locked|somebody else writes", re.IGNORECASE)
_VARIES = re.compile(r"\d+(?:\.\d+)?|'[^']*'")


class HammerCrew(Crew):
    """Workers on the database at `url`; what they say goes to files in `logs`.

    `module` of this package has their application. Their server never goes away, so none may end.
    """

    def __init__(self, url: str, logs: Path, module: str = "app") -> None:
        target, environment = f"{__package__}.{module}:app", {"HAMMER_DATABASE": url}
        super().__init__(target, environment, logs, SETTINGS)

    def troubles(self) -> Counter[str]:
        """Return how often workers said what of locks, without what differs each time."""
        said = (str(each.get("message", each)) for each in self.said())
        found = (each for each in said if _TROUBLE.search(each))
        return Counter(_VARIES.sub("…", each)[:200] for each in found)
