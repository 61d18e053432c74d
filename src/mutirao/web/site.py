"""The dashboard as an ASGI application: finds the page and the user, and handles errors.

An error becomes a page, never a traceback; an unexpected one is in the log of the program. Nothing
is opened before the first request, as a mounted application gets no event of the start.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from mutirao.errors import (
    ConfigurationError,
    InvalidFilter,
    MissingDriver,
    MutiraoError,
    SchemaError,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from mutirao.log import log
from mutirao.model.blanking import Blanking
from mutirao.model.filters.filter import Filter
from mutirao.model.reading.standing import Reason
from mutirao.web import actions, assets, reasons, showing
from mutirao.web.access import Access, Decide, Permission, Refused, check, decided
from mutirao.web.api.router import Api
from mutirao.web.background import Background
from mutirao.web.credentials import Unauthorized
from mutirao.web.dashboard_client import DashboardApp, DashboardClient
from mutirao.web.forms import Misread
from mutirao.web.live import REFRESH, Readings
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall
from mutirao.web.pages import PAGES
from mutirao.web.security import Gate, GateRules
from mutirao.web.texts.language import LANGUAGES

if TYPE_CHECKING:
    from mutirao.web.wsgi import WsgiSite

Endpoint = Callable[[Request], Awaitable[Response]]
Answer = Callable[[PageCall], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a dashboard is set up.

    Parameters:
        access: decides for each request what its sender may do.
        rules: which requests are accepted.
        redact: names of arguments whose values are secrets, besides those that the rule knows.
        clock: the time.
    """

    access: Decide
    rules: GateRules = field(default_factory=GateRules)
    redact: Collection[str] = ()
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)


class Site:
    """The dashboard of an application.

    Parameters:
        pages: those that there are; the first one is where it begins.
    """

    def __init__(
        self, app: DashboardApp, settings: Settings, pages: Sequence[SitePage] = PAGES
    ) -> None:
        self._app, self._settings, self._pages = app, settings, pages
        self.first = pages[0].name
        self._client: DashboardClient | None = None
        self.clock = settings.clock
        self.languages = LANGUAGES
        self.blanking = Blanking(settings.redact)
        self.readings = Readings()
        self.background = Background()
        self._assets = assets.load()
        self._templates = _templates()
        self._inner = Starlette(
            routes=list(self._routes()),
            exception_handlers={HTTPException: self._no_page},
            lifespan=self._lifespan,
        )
        self.url_path_for = self._inner.url_path_for
        self._guarded = Gate(self._inner, settings.rules, self._refuse)
        self._api = self._made_api()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        asked = self._api if self._api.has(scope) else self._guarded
        await asked(scope, receive, send)

    @property
    def client(self) -> DashboardClient:
        """The client of the application's jobs; made with the first request."""
        if self._client is None:
            self._client = DashboardClient(self._app)
        return self._client

    @property
    def database(self) -> str:
        """The database's URL, with the password hidden."""
        return self._app.database

    async def aclose(self) -> None:
        """Stop what runs behind the pages after its batch, and close the connections.

        An application that is notified of the end does it itself; call it where this one is
        mounted, in the event loop that serves it. `Mutirao.aclose` calls it, too.
        """
        await self.background.aclose()
        if self._client is not None:
            await self._client.aclose()

    def wsgi(self) -> "WsgiSite":
        """Return the dashboard as a WSGI application, for Flask and Django.

        It works in an event loop of its own, in one thread of each process, and opens nothing
        before the first request there. What it has opened is closed when the process ends, or by
        `close()`. `access=` is called in the thread of the request, with Starlette's Request,
        whose `scope["wsgi_environ"]` is the environ; a coroutine function is called in that loop.

        Raises:
            MissingDriver: `mutirao[wsgi]` is not installed.
        """
        try:
            from mutirao.web.wsgi import WsgiSite  # its package is needed by nothing else
        except ModuleNotFoundError as missing:
            raise MissingDriver(
                f"a dashboard by WSGI needs {missing.name}, which is not installed: run"
                " pip install 'mutirao[wsgi]'"
            ) from missing
        return WsgiSite(self, self._settings.access, self._end)

    async def _end(self) -> None:
        """Close all that this loop has opened, also connections of the application."""
        await self.aclose()
        await self._app.store.close()

    async def ready(self) -> None:
        """Raise MutiraoError unless the database has the tables of this version."""
        await self.client.store.check()

    def _made_api(self) -> Api:
        return Api(self, self._settings.access, self._settings.rules)

    def filter_of(self, qualifier: str, value: str) -> str:
        """Return the text of the filter of jobs that have this value."""
        return str(Filter().having(qualifier, value))

    def last_line(self, error: str) -> str:
        """Return the last line of an error, which has its message."""
        return self.blanking.text(error).strip().rpartition("\n")[2]

    def why(self, reason: Reason, call: PageCall) -> str:
        """Return why a job is not running, in words."""
        hidden = reasons.is_hidden(reason, call.access)
        return reasons.said(reason, call.language, call.now, hidden=hidden)

    def jobs_in(self, reason: Reason, call: PageCall) -> tuple[int, ...]:
        """Return the jobs that a reason names, if the caller sees all jobs."""
        return () if reasons.is_hidden(reason, call.access) else reasons.jobs_in(reason)

    def render(self, template: str, **values: Any) -> str:
        """Return a page of a template that is stored beside the pages."""
        return self._templates.get_template(template).render(
            asset=self._asset, refresh=REFRESH, pages=self._pages, site=self, **values
        )

    def _asset(self, call: PageCall, name: str) -> str:
        return call.url("asset", digest=self._assets[name].digest, name=name)

    def _routes(self) -> Any:
        yield Route("/assets/{digest}/{name}", self._send_asset, name="asset", methods=["GET"])
        for page in self._pages:
            yield Route(page.path, self._endpoint(partial(_shown, page)), name=page.name,
                        methods=["GET"])  # fmt: skip
        yield Route("/preferences", self._endpoint(actions.prefer), name="prefer", methods=["POST"])
        yield Route("/act/{name}", self._endpoint(actions.act), name="act", methods=["POST"])

    def _endpoint(self, answer: Answer) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            call = PageCall(self, request, Access.none())
            try:
                call.access = await decided(self._settings.access, request)
                return await answer(call)
            except HTTPException as missing:
                return await self._no_page(request, missing)
            except Unauthorized as refused:
                return _ask_who(call, refused)
            except Exception as error:  # noqa: BLE001 (it becomes a page, and what is new is logged)
                return self._failed(call, error)

        return endpoint

    def _failed(self, call: PageCall, error: Exception) -> Response:
        status, key, tell = _meaning(error)
        if status >= 500 and not isinstance(error, StoreUnavailable | SchemaError):
            log.error("the dashboard could not answer %s", call.request.url.path, exc_info=error)
        detail = self.blanking.text(str(error)) if tell and call.may("read") else ""
        return call.page("error.html", status, key=key, detail=detail, status=status)

    async def _send_asset(self, request: Request) -> Response:
        found = assets.answer(
            self._assets, request.path_params["digest"], request.path_params["name"]
        )
        return found or await self._no_page(request, HTTPException(404))

    async def _no_page(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        key = "refused.method" if status == 405 else "missing.page"
        call = PageCall(self, request, Access.none())
        return call.page("error.html", status, key=key, detail="", status=status)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int, key: str
    ) -> None:
        call = PageCall(self, Request(scope, receive), Access.none())
        page = call.page("error.html", status, key=key, detail="", status=status)
        await page(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> Any:
        yield
        await self.aclose()


async def _shown(page: SitePage, call: PageCall) -> Response:
    check(call.access, Permission.READ, whole=page.whole)
    return await page.show(call)


def _ask_who(call: PageCall, refused: Unauthorized) -> Response:
    status, key = (429, "refused.late") if refused.late else (401, "refused.who")
    page = call.page("error.html", status, key=key, detail="", status=status)
    page.headers["www-authenticate"] = 'Basic realm="Mutirao", charset="UTF-8"'
    return page


# The status of an error, the key of its text, and whether its message is shown.
_MEANINGS: tuple[tuple[type[Exception], int, str, bool], ...] = (
    (InvalidFilter, 400, "refused.filter", True),
    (ConfigurationError, 500, "failed.unforeseen", False),  # of the application that has mounted it
    (SchemaError, 503, "failed.schema", True),
    (StoreBusy, 503, "failed.slow", False),
    (StoreUnavailable, 503, "failed.database", True),
    (StoreError, 500, "failed.database", True),
    (LookupError, 404, "missing.thing", True),
    (MutiraoError, 409, "failed.refused", True),
)


def _meaning(error: Exception) -> tuple[int, str, bool]:
    """Return the status of an error, the key of its text, and whether its message is shown."""
    if isinstance(error, Refused):
        return 403, "refused.whole" if error.needed is None else "refused.role", False
    if isinstance(error, Misread):
        return error.status, error.key, False
    if isinstance(error, MutiraoError):
        found = next(each for each in _MEANINGS if isinstance(error, each[0]))
        return found[1:]
    return 500, "failed.unforeseen", False


def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("mutirao.web", "pages"),
        autoescape=True,
        finalize=showing.harmless,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(cell=showing.cell, pretty=showing.pretty, iso=showing.iso, utc=showing.utc)
    return made
