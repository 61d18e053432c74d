"""The findings of the doctor: each problem, and its solution."""

from starlette.responses import Response

from mutirao.model.finding_texts.translation import translated
from mutirao.model.findings import Level
from mutirao.web.page import SitePage
from mutirao.web.page_call import PageCall

FRESH_FOR = 30.0  # seconds: an examination looks at much
WITHIN = 0.2  # seconds that are waited for it; on large tables it takes many
_ORDER = {Level.PROBLEM: 0, Level.WARNING: 1, Level.OK: 2}


async def show(call: PageCall) -> Response:
    """Show what an examination has found; problems come first."""
    readings = call.site.readings
    findings = await readings.soon("findings", call.client.aexamine, FRESH_FOR, WITHIN)
    said = [translated(each, call.language.code) for each in findings or ()]
    shown = sorted(said, key=lambda each: _ORDER[each.level])
    return call.page(
        "findings.html", findings=shown, under_way=findings is None, age=readings.age("findings"),
        standalone=not call.client.tasks,
    )  # fmt: skip


PAGE = SitePage(path="/doctor", name="doctor", show=show)
