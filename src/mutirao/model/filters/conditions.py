"""The terms of a filter as values: what they look at, and which values they want.

They say what is wanted, not how it is found: the statements of the store are made of them. The
text that people write is read in `filter`.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool | None  # in JSON
Bound: TypeAlias = int | datetime | None  # None: no bound on this side


class Aspect(StrEnum):
    """What a term looks at."""

    STATE = "state"
    TASK = "task"
    QUEUE = "queue"
    TAG = "tag"
    KEY = "key"
    TENANT = "tenant"
    GROUP = "group"
    ERROR = "error"  # the class of the last error, with its module or without
    MESSAGE = "message"  # the beginning of that error's text
    ARG = "arg"
    ID = "id"
    GRAPH = "graph"
    WORKER = "worker"
    PRIORITY = "priority"
    ATTEMPT = "attempt"
    ENQUEUED = "enqueued"


@dataclass(frozen=True, slots=True)
class Exactly:
    """This value. Of an argument: as JSON has it, so that "7" is no number."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Like:
    """A text with `*` for any characters, or none."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Between:
    """A number or a moment from `low` to `high`: both included, but for a moment's `high`."""

    low: Bound
    high: Bound


Value: TypeAlias = Exactly | Like | Between


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: that one of the values fits, or none of them, if it is `negated`.

    `name`: of the argument, with dots on the way into objects.
    """

    aspect: Aspect
    values: tuple[Value, ...]
    negated: bool = False
    name: str = ""
