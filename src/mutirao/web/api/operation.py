"""An operation of the API: its parameters, its required role, and its answer."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mutirao.web.access import Permission
from mutirao.web.api.call import ApiCall

PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of an operation: a value that becomes JSON, the status, and more headers."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation.

    Parameters:
        name: by which clients that are made from the document call it.
        method, path: `GET` or `POST`, and the path below the prefix, with parameters in braces.
        does: one sentence.
        role: the one that a user needs for it.
        run: does it.
        answer: the type of its answer.
        query, body: the types of its parameters; None: none.
        whole: whether it is about all jobs, and so not for users that see only some.
        statuses: of its successes.
        refusals: statuses that it alone has, and what they mean.
        tagged: whether the answer has an ETag.
        keyed: whether it takes an `Idempotency-Key`.
    """

    name: str
    method: str
    path: str
    does: str
    role: Permission
    run: Callable[[ApiCall], Awaitable[Answered]]
    answer: Any
    query: Any = None
    body: Any = None
    whole: bool = True
    statuses: tuple[int, ...] = (200,)
    refusals: Mapping[int, str] = field(default_factory=dict)
    tagged: bool = False
    keyed: bool = False

    @property
    def acts(self) -> bool:
        """Whether it changes something."""
        return self.method != "GET"
