"""What people do to jobs, one or many: the action, which jobs, and how far it came.

What they do to something else (a queue, a schedule, an endpoint …) is an entry of the same audit: a
change without a filter and without ids, whose new values say what was done to what.
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
MAX_IDS = 10_000  # that may be named
MAX_ERROR = 2_000  # characters


class ActionKind(StrEnum):
    """What is done to jobs."""

    RETRY = "retry"  # due now
    CHANGE = "change"
    CANCEL = "cancel"
    REDRIVE = "redrive"
    DELETE = "delete"  # finished jobs, with their history


class ActionState(StrEnum):
    """How an action stands."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"  # it said it runs, and nothing was seen of it for a minute


@dataclass(frozen=True, slots=True)
class Action:
    """What is to be done; `change` for that kind only."""

    kind: ActionKind
    change: Change | None = None

    def __post_init__(self) -> None:
        if (self.kind is ActionKind.CHANGE) != (self.change is not None):
            raise InvalidFilter(f"a change is given with {self.kind!r}; give one with change only")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAction:
    """An action that begins: who does what to which jobs.

    `expected`: how many matched when it was confirmed, if anybody looked.
    """

    who: str
    action: ActionKind
    change: str | None = None
    filter: str | None = None
    ids: tuple[int, ...] | None = None
    expected: int | None = None


class About(NamedTuple):
    """What was done to something else than jobs: `pause`, of a `queue`, whose name is `mail`."""

    command: str
    of: str
    name: str

    def spelled(self) -> str:
        """Return it as the audit has it, in place of the new values of jobs."""
        return json.dumps(self._asdict(), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Came:
    """How far an action came: jobs looked at, jobs done, and the others by their state."""

    matched: int = 0
    done: int = 0
    why: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """An action as people see it.

    After a kill it is `lost`, and `done` is what was written last: a batch may have been done
    beyond it.
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
        """What was done to something else than jobs; None: it was done to jobs."""
        if self.change is None or self.filter is not None or self.ids is not None:
            return None
        said = row_json.shown(self.change)
        if not isinstance(said, dict) or said.keys() != {*About._fields}:
            return None
        return About(**{name: str(each) for name, each in said.items()})
