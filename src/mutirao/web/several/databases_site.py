"""The dashboard of an application that lists its databases: a page to choose one, and its pages.

The pages of a database, and its API, stand below `/databases/name`; each database has connections
of its own, which are closed when many others are looked at.
"""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import NoReturn, Protocol

import msgspec
from starlette.datastructures import URL
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from mutirao.errors import ConfigurationError, StoreUnavailable
from mutirao.web.access import Access, Permission
from mutirao.web.api.call import ApiCall
from mutirao.web.api.operation import Answered, Operation
from mutirao.web.api.router import Api
from mutirao.web.dashboard_client import DashboardApp
from mutirao.web.page import SitePage
from mutirao.web.page_call import CHOOSER, PageCall
from mutirao.web.security import Gate
from mutirao.web.several.listed_databases import Elsewhere, ListedDatabase, ListedDatabases
from mutirao.web.site import Settings, Site

BELOW = "/databases/"
MOST_OPEN = 20  # databases whose connections are kept
IDLE = 60.0  # seconds after which the connections of one may be closed for another


class ListingApp(DashboardApp, Elsewhere[DashboardApp], Protocol):
    """An application that lists its databases."""


@dataclass(slots=True)
class _OpenedSite:
    app: DashboardApp
    site: Site
    url: str
    used: float
    asks: int = 0  # requests that are under way

    async def aclose(self) -> None:
        await self.site.aclose()
        await self.app.store.close()


class DatabasesSite(Site):
    """The dashboards of several databases, and the page on which one is chosen.

    Parameters:
        clock: seconds that only grow.
    """

    def __init__(
        self, app: ListingApp, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        page = SitePage(path="/", name="databases", show=self._show, whole=False, listed=False)
        self._listing, self._ticks = app, clock
        self.listed = ListedDatabases(app.alisted_databases, clock)
        self._opened: dict[str, _OpenedSite] = {}
        super().__init__(app, settings, (page,))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, by the dashboard of the database that its path names."""
        rest = _path(scope) if scope["type"] == "http" else ""
        if not rest.startswith(BELOW):
            await super().__call__(scope, receive, send)
            return
        name, slash, _ = rest.removeprefix(BELOW).partition("/")
        try:
            found = (await self.listed.get()).get(name)
        except Exception as error:  # noqa: BLE001 (it becomes a page)
            page = self._failed(PageCall(self, Request(scope, receive), Access.none()), error)
            await Gate(page, self._settings.rules, self._refuse)(scope, receive, send)
            return
        if found is None:
            await super().__call__(scope, receive, send)  # which says that there is no such page
        elif not slash:
            await RedirectResponse(URL(scope=scope).path + "/")(scope, receive, send)
        else:
            await self._ask(found, scope, receive, send)

    async def _ask(
        self, database: ListedDatabase, scope: Scope, receive: Receive, send: Send
    ) -> None:
        root = str(scope.get("root_path", "")).rstrip("/")
        state = {**scope.get("state", {}), "database": database.shown}
        opened = await self._of(database)
        opened.asks += 1
        try:
            inner = {**scope, "root_path": f"{root}{BELOW}{database.name}", "state": state,
                     CHOOSER: f"{root}/"}  # fmt: skip
            await opened.site(inner, receive, send)
        finally:
            opened.asks -= 1
            opened.used = self._ticks()

    async def _of(self, database: ListedDatabase) -> _OpenedSite:
        """Return the dashboard of a database; a URL with another password has another one."""
        found = self._opened.get(database.name)
        if found is not None and found.url == database.url:
            return found
        app = self._listing.elsewhere(database.url)
        made = _OpenedSite(app, Site(app, self._settings), database.url, self._ticks())
        self._opened[database.name] = made
        if found is not None:
            await found.aclose()
        await self._close_idle()
        return made

    async def _close_idle(self) -> None:
        """Close those that were unused for the longest time, if there are many."""
        by_use = sorted(self._opened.items(), key=lambda each: each[1].used)
        for name, each in by_use[: max(0, len(by_use) - MOST_OPEN)]:
            idle = self._ticks() - each.used > IDLE and not each.asks
            if idle and each.site.background.is_idle:
                del self._opened[name]
                await each.aclose()

    async def aclose(self) -> None:
        """Stop what runs behind the pages after its batch, and close the connections."""
        async with AsyncExitStack() as closing:
            closing.push_async_callback(super().aclose)
            for each in self._opened.values():
                closing.push_async_callback(each.aclose)
            self._opened = {}

    async def _show(self, call: PageCall) -> Response:
        """Show the databases."""
        found = [*(await self.listed.get()).values()]
        return call.page("databases.html", databases=found, below=f"{call.root}{BELOW}")

    async def ready(self) -> None:
        """Raise unless the databases can be listed; each has a `/readyz` of its own."""
        try:
            await self.listed.get()
        except Exception as error:
            raise StoreUnavailable(f"the databases cannot be listed: {error}") from error

    def _made_api(self) -> Api:
        rules = self._settings.rules
        return Api(self, self._settings.access, rules, OPERATIONS, measured=False)

    def wsgi(self) -> NoReturn:
        """Raise ConfigurationError: several databases are served by ASGI, or `mutirao web`."""
        raise ConfigurationError(
            "this application lists its databases, whose dashboard is an ASGI application; run"
            " `mutirao web` beside the program"
        )


class Database(msgspec.Struct, kw_only=True):
    """A database of the application: its name in paths, its URL, and where its API begins."""

    name: str
    url: str
    api: str


class Databases(msgspec.Struct, kw_only=True):
    """All databases."""

    databases: list[Database]


async def _list(call: ApiCall) -> Answered:
    site = call.site
    assert isinstance(site, DatabasesSite)  # noqa: S101 (no other has this operation)
    found = [
        Database(name=name, url=each.shown, api=call.url(f"{BELOW}{name}/api/v1"))
        for name, each in (await site.listed.get()).items()
    ]
    return Answered(Databases(databases=found))


OPERATIONS = (
    Operation(
        name="listDatabases",
        method="GET",
        path="/databases",
        does="List the databases, each with the path of its API.",
        role=Permission.READ,
        run=_list,
        answer=Databases,
        whole=False,
    ),
)


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(str(scope.get("root_path", "")).rstrip("/"))
