"""What may be meant by a filter that is being typed; scripts ask for it, as JSON.

Names of queues, tasks and classes of errors are shown only to callers that see all jobs.
"""

from dataclasses import asdict

from starlette.responses import JSONResponse, Response

from mutirao.model.filters.filter import MAX_TEXT
from mutirao.model.filters.qualifiers import QUALIFIERS
from mutirao.model.filters.suggesting import NOTHING_KNOWN, suggest
from mutirao.web.access import OF_CONTENTS
from mutirao.web.forms import Misread
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

FRESH = 30.0  # seconds that known names are kept for all who type
MOST = 8


async def show(call: PageCall) -> Response:
    """Answer with what may stand where the cursor is."""
    text, place = call.query.text("q", MAX_TEXT, strip=False), call.query.text("at", 5) or "0"
    if not (place.isascii() and place.isdecimal()):
        raise Misread("refused.bad_field")
    known = NOTHING_KNOWN
    if not call.access.only:
        known = await call.site.readings.get("known", call.client.reading.aknown, FRESH)
    hidden = () if call.access.contents else OF_CONTENTS
    found = [
        {**asdict(each), "help": _help(call, each.text)}
        for each in suggest(text, int(place), known)
        if each.text.partition(":")[0].partition(".")[0] not in hidden
    ]
    return JSONResponse(found[:MOST])


def _help(call: PageCall, text: str) -> str:
    name = text.partition(":")[0].partition(".")[0]
    return call.t(f"qualifier.{name}") if ":" in text and name in QUALIFIERS else ""


PAGE = SitePage(path="/suggestions", name="suggestions", show=show, whole=False, listed=False)
