"""What an examination of a database says."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"  # somebody should judge whether it is wanted
    PROBLEM = "problem"  # jobs do not run, or not as they should


@dataclass(frozen=True, slots=True)
class Finding:
    """What was examined, what was found, and what to do about it if anything."""

    level: Level
    about: str
    found: str
    advice: str | None = None
