"""One request, as pages and commands see it: its user, its language, its answer."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mutirao.model.audit.actions import About
from mutirao.model.blanking import BLANK
from mutirao.model.filters.filter import Filter
from mutirao.web.access import Access, Permission, asked, who
from mutirao.web.forms import Fields, query_of
from mutirao.web.texts.language import LANGUAGES, Language, accepted

if TYPE_CHECKING:
    from mutirao.web.dashboard_client import DashboardClient
    from mutirao.web.site import Site

THEMES = ("system", "light", "dark")
TIMES = ("relative", "absolute")
COLUMNS = (
    "state", "queue", "attempt", "when", "priority", "enqueued", "due", "duration", "worker", "key",
    "tags", "tenant", "group",
)  # fmt: skip
USUAL_COLUMNS = COLUMNS[:4]
COLUMN, NO_COLUMN = "mutirao_columns", "none"
LANGUAGE, THEME, TIME, SAID = "mutirao_language", "mutirao_theme", "mutirao_times", "mutirao_said"
YEAR = 365 * 86_400
CHOOSER = "mutirao.chooser"  # in the scope: where the page is on which a database is chosen
T = TypeVar("T")
LONGEST_SAID = 600  # characters of the text in a cookie


@dataclass(frozen=True, slots=True)
class Notice:
    """The message of a command for the next page: the key of a text, and a fact in it.

    `to`: the page; empty: the one that the form came from.
    """

    key: str
    n: int | None = None
    detail: str = ""
    to: str = ""

    @property
    def is_error(self) -> bool:
        """Whether it failed."""
        return self.key.startswith("failed.")


class PageCall:
    """One request.

    Parameters:
        access: what the caller may do.
    """

    def __init__(self, site: "Site", request: Request, access: Access) -> None:
        self.site, self.request, self.access = site, request, access
        self.language = _language(request)
        self.theme = _chosen(request, THEME, THEMES)
        self.times = _chosen(request, TIME, TIMES)
        self.columns = _columns(request)
        self.now: datetime = site.clock()

    @property
    def t(self) -> Language:
        """Returns texts of the language."""
        return self.language

    @property
    def client(self) -> "DashboardClient":
        """The client of the application's jobs."""
        return self.site.client

    @property
    def query(self) -> Fields:
        """The query of the URL; raises Misread."""
        return query_of(self.request)

    @property
    def root(self) -> str:
        """Where the dashboard begins, without a slash at its end."""
        return str(self.request.scope.get("root_path", "")).rstrip("/")

    @property
    def chooser(self) -> str:
        """The path of the page on which a database is chosen; empty where there is one."""
        return str(self.request.scope.get(CHOOSER, ""))

    @property
    def _kept_for(self) -> str:
        """The path of all pages for which a browser keeps the chosen values."""
        return self.chooser.rstrip("/") or "/" if self.chooser else self.root or "/"

    def may(self, role: str) -> bool:
        """Return whether the caller has a role, by its name; templates ask."""
        return self.access.may(Permission[role.upper()])

    def filter(self, text: str) -> Filter:
        """Parse a filter; raise InvalidFilter if it is invalid, or asks for hidden data."""
        return asked(self.access, text, self.site.blanking)

    async def noted(self, about: About, work: Callable[[], Awaitable[T]]) -> T:
        """Act on another object than jobs, and record the caller in the audit."""
        return await self.client.actions.anote(who(self.access), about, work)

    def told(self, text: str | None) -> str:
        """Return a text with what jobs carry in it, as the caller may see it."""
        if not text:
            return ""
        return self.site.blanking.text(text) if self.access.contents else BLANK

    def url(self, page: str, query: Mapping[str, object] | None = None, /, **path: object) -> str:
        """Return the path of a page, without the name of the host."""
        found = self.root + str(self.site.url_path_for(page, **path))
        kept = {key: value for key, value in (query or {}).items() if value not in (None, "")}
        return f"{found}?{urlencode(kept)}" if kept else found

    def here(self) -> str:
        """Return the path and query of this page, to come back to."""
        query = self.request.scope.get("query_string", b"").decode("ascii", "replace")
        path = self.request.url.path
        return f"{path}?{query}" if query else path

    def page(self, template: str, code: int = 200, /, **values: Any) -> Response:
        """Return a page."""
        said = _said(self.request)
        html = self.site.render(template, call=self, t=self.language, said=said, **values)
        response = HTMLResponse(html, code)
        if said is not None:
            response.delete_cookie(SAID, path=self._kept_for)
        return response

    def back(self, to: str, said: Notice | None = None) -> Response:
        """Return a redirect to a page of the dashboard, with a message; otherwise to the first.

        Parameters:
            to: a path that begins where the dashboard does.
        """
        response = RedirectResponse(to if self._is_ours(to) else self.url(self.site.first), 303)
        if said is not None:
            detail = said.detail[:LONGEST_SAID].encode("utf-8", "replace").decode()
            value = quote(f"{said.key}|{'' if said.n is None else said.n}|{detail}", safe="")
            self.remember(response, SAID, value[:3_500], 60)
        return response

    def remember(self, response: Response, name: str, value: str, seconds: int = YEAR) -> None:
        """Make the browser keep a value, for these pages only."""
        response.set_cookie(
            name, value, max_age=seconds, path=self._kept_for, httponly=True, samesite="lax",
            secure=self.request.url.scheme == "https",
        )  # fmt: skip

    def _is_ours(self, to: str) -> bool:
        begins = to == self.root or to.startswith(f"{self.root}/")
        plain = to.isascii() and to.isprintable() and "\\" not in to and len(to) < 4_000
        return begins and plain and to.startswith("/") and not to.startswith("//")


def _language(request: Request) -> Language:
    chosen = LANGUAGES.get(request.cookies.get(LANGUAGE, ""))
    return chosen or accepted(request.headers.get("accept-language", ""))


def _chosen(request: Request, cookie: str, known: tuple[str, ...]) -> str:
    value = request.cookies.get(cookie, "")
    return value if value in known else known[0]


def _columns(request: Request) -> tuple[str, ...]:
    """Return the columns of a list of jobs that were chosen, in their order."""
    kept = request.cookies.get(COLUMN, "")[:500]
    chosen = {*kept.split(".")} if kept else {*USUAL_COLUMNS}
    return tuple(each for each in COLUMNS if each in chosen)


def _said(request: Request) -> Notice | None:
    """Return the message of the last command, if a cookie has it."""
    kept = request.cookies.get(SAID, "")
    key, _, rest = unquote(kept).partition("|")
    number, _, detail = rest.partition("|")
    if not key.startswith(("done.", "failed.")) or key not in LANGUAGES["en"].texts:
        return None
    count = int(number) if number.isascii() and number.isdecimal() and len(number) < 12 else None
    return Notice(key, count, detail[:LONGEST_SAID])
