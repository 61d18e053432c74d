"""The findings of an examination of a database."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"  # a person should decide whether it is intended
    PROBLEM = "problem"  # jobs do not run, or run wrongly


@dataclass(frozen=True, slots=True)
class Finding:
    """What was examined, what was found, and what to do about it, if anything."""

    level: Level
    about: str
    found: str
    advice: str | None = None
