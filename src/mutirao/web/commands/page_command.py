"""A command: the role that it needs, and what runs it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response

from mutirao.web.access import Permission
from mutirao.web.forms import Fields
from mutirao.web.page_call import Notice, PageCall

Run = Callable[[PageCall, Fields], Awaitable[Notice | Response]]


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the role that it needs, and whether it is about more than some jobs."""

    role: Permission
    run: Run
    whole: bool = True
