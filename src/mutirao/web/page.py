"""A page: its path, its name, the role that may see it, and the function that shows it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from mutirao.web.page_call import PageCall

Show = Callable[["PageCall"], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePage:
    """A page.

    Parameters:
        path: below where the dashboard is.
        name: by which links are made; `nav.name` is its text.
        show: makes it.
        whole: whether it shows what belongs to all jobs, and so not to users that see only some.
        listed: whether it is among the links that each page has.
    """

    path: str
    name: str
    show: Show
    whole: bool = True
    listed: bool = True
