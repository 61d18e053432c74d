"""The terms of a filter as values: which property they test, and which values they want.

They describe which jobs are wanted, not how to find them: the store makes statements of them.
`filter` parses the text that people write.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool | None  # in JSON
Bound: TypeAlias = int | datetime | None  # None: no bound on this side


class Aspect(StrEnum):
    """The property of a job that a term tests."""

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
    """This value. For an argument, as in JSON: the text "7" does not match the number 7."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Like:
    """A text with `*` for any characters, or none."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Between:
    """A number or a moment from `low` to `high`: both included, except a moment's `high`."""

    low: Bound
    high: Bound


Value: TypeAlias = Exactly | Like | Between


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: one of the values fits, or, if it is `negated`, none of them does.

    `name`: of the argument; dots lead into objects.
    """

    aspect: Aspect
    values: tuple[Value, ...]
    negated: bool = False
    name: str = ""
