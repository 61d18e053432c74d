"""The page of the audit: users, their actions on jobs, and the results."""

from starlette.responses import Response

from mutirao.web.forms import id_in
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

PER_PAGE = 50


async def show(call: PageCall) -> Response:
    """Show the actions on jobs, newest first."""
    before = call.query.text("before", 20)
    found = await call.client.actions.alist(
        before=id_in(before) if before else None, limit=PER_PAGE + 1
    )
    shown = found[:PER_PAGE]
    following = shown[-1].id if len(found) > PER_PAGE else None
    return call.page("audit.html", entries=shown, following=following, before=before)


PAGE = SitePage(path="/audit", name="audit", show=show)
