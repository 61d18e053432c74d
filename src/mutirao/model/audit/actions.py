"""What people do to jobs, one or many: the action, the jobs, and its progress.

An action on something else (a queue, a schedule, an endpoint …) is an entry of the same audit: a
change without a filter and without ids, whose new values name the object and what was done.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from mutirao.errors import InvalidFilter
from mutirao.model import row_json
from mutirao.model.jobs.change import Change

MAX_WHO = 200  # characters
MAX_IDS = 10_000  # ids in one action
MAX_ERROR = 2_000  # characters


class ActionKind(StrEnum):
    """What is done to jobs."""

    RETRY = "retry"  # due now
    CHANGE = "change"
    CANCEL = "cancel"
    REDRIVE = "redrive"
    DELETE = "delete"  # finished jobs, with their history


class ActionState(StrEnum):
    """The state of an action."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"  # it was running, and has written nothing for a minute


@dataclass(frozen=True, slots=True)
class Action:
    """What is to be done; `change` is given for that kind only."""

    kind: ActionKind
    change: Change | None = None

    def __post_init__(self) -> None:
        if (self.kind is ActionKind.CHANGE) != (self.change is not None):
            raise InvalidFilter(f"a change is given with {self.kind!r}; give one with change only")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAction:
    """An action that begins: by whom, what, and on which jobs.

    `expected`: how many matched when it was confirmed, if it was confirmed by a person.
    """

    who: str
    action: ActionKind
    change: str | None = None
    filter: str | None = None
    ids: tuple[int, ...] | None = None
    expected: int | None = None


class About(NamedTuple):
    """An action on an object other than jobs: `pause`, of a `queue`, whose name is `mail`."""

    command: str
    of: str
    name: str

    def spelled(self) -> str:
        """Return its form in the audit, where actions on jobs have new values."""
        return json.dumps(self._asdict(), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Came:
    """The progress of an action: jobs looked at, jobs done, and the others by their state."""

    matched: int = 0
    done: int = 0
    why: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """An action as people see it.

    After a kill it is `lost`, and `done` is the last written number: one more batch may have been
    done.
    """

    id: int
    who: str
    action: ActionKind
    change: str | None
    filter: str | None
    ids: tuple[int, ...] | None
    expected: int | None
    matched: int
    done: int
    passed_over: int
    why: Mapping[str, int]
    state: ActionState
    error: str | None
    started_at: datetime
    seen_at: datetime
    finished_at: datetime | None

    @property
    def about(self) -> About | None:
        """The action on an object other than jobs; None: it was on jobs."""
        if self.change is None or self.filter is not None or self.ids is not None:
            return None
        said = row_json.shown(self.change)
        if not isinstance(said, dict) or said.keys() != {*About._fields}:
            return None
        return About(**{name: str(each) for name, each in said.items()})
