"""Each command, as each role: it acts for those who may, and for nobody else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mutirao import JobState
from mutirao.errors import StoreBusy
from mutirao.model.audit.actions import ActionKind, NewAction
from mutirao.sql.statements.finding import paging
from mutirao.web.access import Permission
from mutirao.web.actions import COMMANDS
from mutirao.web.pages import everything
from tests.integration.web.conftest import ROLES, Browser
from tests.support.dashboard import Shop

# Of each command: what its form has, and the roles that may give it.
FORMS = {
    "retry": {"id": "scheduled"},
    "cancel": {"id": "scheduled"},
    "redrive": {"id": "dead"},
    "change": {"id": "scheduled", "priority": "-5"},
    "everything": {"q": "state:scheduled", "action": "retry"},
    "stop": {"action": "1"},
    "enqueue": {"task": "send_receipt", "arg.order_id": "7", "arg.to": "ana@example.com"},
    "flush-host": {"host": "social.example"},
    "hold-host": {"host": "social.example"},
    "redrive-host": {"host": "social.example"},
    "return-dead": {"queue": "letters", "message": "ana"},
    "drop-dead": {"queue": "letters", "message": "ana"},
    "run-schedule": {"schedule": "price feeds"},
    "pause-queue": {"queue": "mail"},
    "resume-queue": {"queue": "media"},
    "pause-schedule": {"schedule": "price feeds"},
    "resume-schedule": {"schedule": "price feeds"},
    "disable-subscription": {"subscription": "index orders"},
    "enable-subscription": {"subscription": "index orders"},
    "pause-endpoint": {"endpoint": "warehouse"},
    "resume-endpoint": {"endpoint": "warehouse"},
    "test-endpoint": {"endpoint": "warehouse"},
}


# What the others tell, that find nothing to do.
NOTHING_THERE = {
    "stop": "bad: Action 1 does not run",
    "redrive-host": "bad: Nothing was enqueued",
    "return-dead": "bad: Nothing was done: the messages",
    "drop-dead": "bad: Nothing was done: the messages",
}


def form_of(shop: Shop, name: str) -> dict[str, Any]:
    """Return the form of a command, with ids in place of states."""
    return {key: shop.by_state.get(value, value) for key, value in FORMS[name].items()}


async def told(browser: Browser, role: str = "admin") -> str:
    """Return what the next page tells, once."""
    found = re.search(
        r'<p class="said (\w+)".*?<span>(.*?)</span>', await browser.page("/jobs", role), re.S
    )
    return "" if found is None else f"{found[1]}: {found[2].strip()}"


def may(role: str, name: str) -> bool:
    """Return whether somebody may give a command, by the role alone."""
    access, command = ROLES[role], COMMANDS[name]
    return access.role >= command.role and not (command.whole and access.only)


@pytest.mark.parametrize("role", ROLES)
async def test_a_command_is_refused(browser: Browser, shop: Shop, role: str) -> None:
    """Each that this role may not give, whatever page the form came from."""
    for name in COMMANDS:
        if not may(role, name):
            answer = await browser.post(f"/act/{name}", role, **form_of(shop, name))
            assert answer.status_code == 403, name


@pytest.mark.parametrize(
    ("role", "name"), [(role, name) for role in ROLES for name in COMMANDS if may(role, name)]
)
async def test_a_command_acts(browser: Browser, shop: Shop, name: str, role: str) -> None:
    """Where the role may give it, and tells what was done."""
    answer = await browser.post(f"/act/{name}", role, **form_of(shop, name))
    assert answer.status_code == 303
    assert (await told(browser, role)).startswith(NOTHING_THERE.get(name, "good: "))
    await browser.site.background.all_done()


async def test_every_command_has_a_form_here() -> None:
    """One that is new is tried, too."""
    assert FORMS.keys() == COMMANDS.keys()
    assert {each.role for each in COMMANDS.values()} == {Permission.ACT, Permission.ADMIN}


async def test_a_refused_command_changes_nothing(browser: Browser, shop: Shop) -> None:
    """The job is as it was, and what the page of somebody else tells is not this."""
    await browser.post("/act/cancel", "read", id=shop.scheduled)
    await browser.post("/act/cancel", "none", id=shop.scheduled)
    assert (await shop.app.ajob(shop.scheduled)).state is JobState.SCHEDULED


async def test_commands_on_jobs(browser: Browser, shop: Shop) -> None:
    """Run now, change, cancel and redrive do so, and tell it once."""
    await browser.post("/act/retry", id=shop.scheduled)
    assert (await told(browser)) == "good: The job is due now."
    assert (await told(browser)) == ""
    assert (await shop.app.ajob(shop.scheduled)).state is JobState.READY

    await browser.post("/act/change", id=shop.ready, priority="-5", queue="bulk", delay="2h")
    changed = await shop.app.ajob(shop.ready)
    assert (changed.priority, changed.queue, changed.state) == (-5, "bulk", JobState.SCHEDULED)

    await browser.post("/act/cancel", id=[shop.ready, shop.scheduled, shop.succeeded])
    assert (await told(browser)) == "good: 2 jobs are cancelled. 2/3"

    await browser.post("/act/redrive", id=shop.dead)
    [again] = [job for job in await shop.app.ajobs() if job.redrive_of == shop.dead]
    page = await browser.page(f"/jobs/{again.id}")
    assert f'href="/jobs/{shop.dead}"' in page


async def test_all_that_match(browser: Browser, shop: Shop) -> None:
    """Their number is shown first; then it is done behind the pages, and the audit knows."""
    page = await browser.page("/everything?q=state:scheduled", "act")
    assert "12 jobs match." in page
    answer = await browser.post(
        "/act/everything", "act", q="state:scheduled", action="cancel", expected=12, back="/audit"
    )
    assert answer.headers["location"] == "/audit"
    await browser.site.background.all_done()
    assert (await shop.app.ajob(shop.scheduled)).state is JobState.CANCELLED
    [entry] = await browser.site.client.actions.alist()
    assert (entry.who, entry.filter, entry.expected) == ("bia", "state:scheduled", 12)
    assert (entry.done, entry.passed_over, entry.state) == (12, 0, "done")


async def test_all_that_match_are_changed(browser: Browser, shop: Shop) -> None:
    """With the new values of the form; without any, nothing is begun."""
    order: dict[str, Any] = {"q": "state:scheduled", "action": "change", "expected": 12}
    await browser.post("/act/everything", **order)
    assert "give a priority" in await told(browser)
    await browser.post("/act/everything", "mail", **order, queue="stock")
    assert "moves none to another queue" in await told(browser, "mail")
    assert await browser.site.client.actions.alist() == ()
    await browser.post("/act/everything", "act", **order, priority="7", queue="bulk", delay="2h")
    await browser.site.background.all_done()
    changed = await shop.app.ajob(shop.scheduled)
    assert (changed.priority, changed.queue, changed.state) == (7, "bulk", JobState.SCHEDULED)
    [entry] = await browser.site.client.actions.alist()
    assert (entry.done, entry.state) == (12, "done")
    page = await browser.page("/everything?q=queue:bulk", "act")
    assert 'name="delay"' in page
    assert 'name="queue"' not in await browser.page("/everything?q=queue:mail", "mail")


async def test_all_that_match_are_deleted(browser: Browser, shop: Shop) -> None:
    """Those that have ended, with their history; the others are passed over."""
    found = await shop.app.ajobs(filter="task:send_receipt", limit=None)
    ended = [job for job in found if job.finished_at is not None]
    assert 0 < len(ended) < len(found)
    await browser.post(
        "/act/everything", q="task:send_receipt", action="delete", expected=len(found)
    )
    await browser.site.background.all_done()
    [entry] = await browser.site.client.actions.alist()
    assert (entry.done, entry.passed_over) == (len(ended), len(found) - len(ended))
    left = await shop.app.ajobs(filter="task:send_receipt", limit=None)
    assert {job.id for job in left} == {job.id for job in found} - {job.id for job in ended}


async def test_what_is_done_to_other_things_is_in_the_audit(browser: Browser, shop: Shop) -> None:
    """Who did what to which thing; also what failed, and not what was refused."""
    await browser.post("/act/pause-queue", queue="mail")
    await browser.post("/act/test-endpoint", endpoint="warehouse")
    await browser.post("/act/run-schedule", "act", schedule="price feeds")
    await browser.post("/act/pause-schedule", schedule="none")
    await browser.post("/act/pause-queue", "act", queue="mail")
    entries = await browser.site.client.actions.alist()
    assert [(each.who, each.about, each.state) for each in entries] == [
        ("rui", ("pause", "schedule", "none"), "failed"),
        ("bia", ("run", "schedule", "price feeds"), "done"),
        ("rui", ("test", "endpoint", "warehouse"), "done"),
        ("rui", ("pause", "queue", "mail"), "done"),
    ]
    page = await browser.page("/audit")
    assert re.search(r"Pause</b>.*?Schedule <span[^>]*>none<", page, re.S)


async def test_an_entry_that_nobody_knows_is_shown(browser: Browser) -> None:
    """As it is written: a later version may have done what has no name here."""
    for change in ('{"command": "x-ray", "of": "moon", "name": "<b>"}', '{"command": 7}', "[]"):
        new = NewAction(who="eva", action=ActionKind.CHANGE, change=change)
        await browser.site.client.actions.aobserve(new, nothing)
    page = await browser.page("/audit")
    assert "x-ray" in page
    assert "&lt;b&gt;" in page


async def nothing() -> list[int]:
    """Do nothing."""
    return []


async def test_all_that_match_are_those_that_were_shown(browser: Browser, shop: Shop) -> None:
    """Another number than was confirmed is told, and nothing is done; likewise what is none."""
    order: dict[str, Any] = {"q": "state:scheduled", "action": "cancel"}
    await browser.post("/act/everything", expected=11, **order)
    assert "12 jobs match now, and 11 were expected" in await told(browser)
    for unfit in ("9" * 20, "1000001", "-1", "x"):
        assert (await browser.post("/act/everything", expected=unfit, **order)).status_code == 400
    await browser.site.background.all_done()
    assert (await shop.app.ajob(shop.scheduled)).state is JobState.SCHEDULED
    assert await browser.site.client.actions.alist() == ()


async def test_what_cannot_begin_is_not_told_as_begun(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes after the action has begun, and says why it has not."""

    async def busy(*_: object, **__: object) -> int:
        raise StoreBusy("too much to do")

    monkeypatch.setattr(browser.site.client.store.audit, "begin", busy)
    order: dict[str, Any] = {"q": "state:scheduled", "action": "cancel", "expected": 12}
    assert (await browser.post("/act/everything", **order)).status_code == 503
    assert await told(browser) == ""


async def test_all_that_match_where_not_all_are_counted(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where counting stopped without one, there may be some: the page offers it all the same."""
    monkeypatch.setattr(paging, "LOOKED_AT", 1)
    monkeypatch.setattr(everything, "WINDOWS", 1)
    page = await browser.page("/everything?q=task:none", "act")
    assert "counting stopped" in page
    assert 'name="action" value="cancel"' in page
    assert 'name="expected" value=""' in page  # at least so many is no number to hold to


async def test_all_that_match_of_those_that_are_seen(browser: Browser, shop: Shop) -> None:
    """The filter of whoever may see only some jobs is in force, too."""
    await browser.post("/act/everything", "mail", q="state:dead", action="redrive")
    await browser.site.background.all_done()
    again = [job for job in await shop.app.ajobs() if job.redrive_of is not None]
    assert again
    assert {job.queue for job in again} == {"mail"}


async def test_all_that_match_needs_a_filter(browser: Browser) -> None:
    """Without one it would be every job; who only looks is not asked."""
    assert (await browser.get("/everything")).status_code == 400
    assert (await browser.post("/act/everything", action="cancel")).status_code == 400
    assert (await browser.post("/act/everything", action="explode", q="id:1")).status_code == 400
    assert (await browser.get("/everything?q=id:1", "read")).status_code == 403


async def test_what_is_done_to_jobs_is_in_the_audit(browser: Browser, shop: Shop) -> None:
    """Who did what to which jobs, and how many it reached; what is refused is not there."""
    await browser.post("/act/change", "act", id=shop.scheduled, priority="-5")
    await browser.post("/act/cancel", "mail", id=[shop.scheduled, shop.succeeded])
    await browser.post("/act/cancel", "read", id=shop.ready)
    cancelled, changed = await browser.site.client.actions.alist()
    assert (changed.who, changed.action, changed.change) == ("bia", "change", '{"priority": -5}')
    assert (cancelled.who, cancelled.ids) == ("leo", (shop.scheduled, shop.succeeded))
    assert (cancelled.done, cancelled.filter, cancelled.state) == (1, "queue:mail", "done")
    page = await browser.page("/audit")
    assert page.index("leo") < page.index("bia")
    assert f'href="/jobs/{shop.scheduled}"' in page


async def test_a_command_does_not_reach_jobs_that_are_not_seen(
    browser: Browser, shop: Shop
) -> None:
    """Of what is named, only what whoever acts may see: the others are as they were."""
    await browser.post("/act/redrive", "mail", id=[shop.succeeded, shop.dead])
    assert (await told(browser, "mail")).endswith("1/2")
    assert not [job for job in await shop.app.ajobs() if job.redrive_of == shop.succeeded]
    await browser.post("/act/cancel", "mail", id=shop.blocked)
    assert (await told(browser, "mail")).startswith("bad: Nothing was cancelled")
    assert (await shop.app.ajob(shop.blocked)).state is JobState.BLOCKED


async def test_no_job_is_moved_to_where_it_is_not_seen(browser: Browser, shop: Shop) -> None:
    """Who sees only the jobs of a queue changes all else of them."""
    await browser.post("/act/change", "mail", id=shop.scheduled, queue="stock", priority=7)
    assert "moves none to another queue" in await told(browser, "mail")
    assert (await shop.app.ajob(shop.scheduled)).priority == 0
    for path in ("/jobs", f"/jobs/{shop.scheduled}"):
        assert 'name="queue"' not in await browser.page(path, "mail")
        assert 'name="queue"' in await browser.page(path, "act")
    await browser.post("/act/change", "mail", id=shop.scheduled, priority=7)
    found = await shop.app.ajob(shop.scheduled)
    assert (found.queue, found.priority) == ("mail", 7)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("cancel", {}),
        ("cancel", {"id": "x"}),
        ("cancel", {"id": "-1"}),
        ("cancel", {"id": "9" * 30}),
        ("cancel", {"id": "٣"}),
        ("cancel", {"id": [str(number) for number in range(1, 600)]}),
        ("change", {"id": "1", "priority": "high"}),
        ("change", {"id": "1", "delay": "soon"}),
        ("change", {"id": "1", "queue": "q" * 300}),
        ("pause-queue", {}),
        ("pause-queue", {"queue": "a\x00b"}),
        ("cancel", {"id": "1", "other": "x" * 70_000}),
    ],
)
async def test_a_form_that_cannot_be_read(
    browser: Browser, name: str, form: dict[str, Any]
) -> None:
    """It is refused as a page, before anything is done."""
    answer = await browser.post(f"/act/{name}", **form)
    assert answer.status_code in (400, 413)
    assert "Traceback" not in answer.text


async def test_what_cannot_be_done_is_told(browser: Browser) -> None:
    """In the words of the library, on the page that the form came from."""
    await browser.post("/act/resume-queue", queue="mail")
    assert "is not paused" in await told(browser)
    await browser.post("/act/pause-schedule", schedule="<b>none</b>")
    assert "&lt;b&gt;none&lt;/b&gt;" in await told(browser)
    await browser.post("/act/change", id=1, priority="99999")
    assert (await told(browser)).startswith("bad: ")


async def test_an_unknown_command(browser: Browser) -> None:
    """There is no such page; a page of a command cannot be asked for without a form."""
    assert (await browser.post("/act/explode")).status_code == 404
    assert (await browser.get("/act/cancel")).status_code == 405


@pytest.mark.parametrize(
    "back",
    ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "", "x",
     "/jobs\r\nSet-Cookie: a=b", "/é"],
)  # fmt: skip
async def test_the_way_back_leads_nowhere_else(browser: Browser, shop: Shop, back: str) -> None:
    """Whatever the form says, it ends on a page of the dashboard."""
    answer = await browser.post("/act/retry", id=shop.scheduled, back=back)
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize(
    ("back", "to"),
    [
        ("/jobs?q=" + "%C3%A9" * 400, "/jobs?q=" + "%C3%A9" * 400),
        ("/jobs?q=" + "%C3%A9" * 2_000, "/"),
        ("/jobs\x00", "/"),
    ],
)
async def test_a_long_way_back_refuses_nothing(
    browser: Browser, shop: Shop, back: str, to: str
) -> None:
    """What was done is told, on the page it came from, or on the first one."""
    for path in ("/act/cancel", "/preferences"):
        answer = await browser.post(path, back=back, id=shop.scheduled)
        assert (answer.status_code, answer.headers["location"]) == (303, to)
    assert (await shop.app.ajob(shop.scheduled)).state is JobState.CANCELLED
    assert "cancelled" in (await told(browser)).lower()
