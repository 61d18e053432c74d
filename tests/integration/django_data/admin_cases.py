"""The admin of a Django project, run as a program with the URL of an empty database."""

from __future__ import annotations

import json
import re
import sys
import unittest
from typing import Any
from urllib.parse import urlencode

from tests.integration.django_data.djproject import set_up

if __name__ != "__main__":
    raise ImportError("run this as a program")

set_up(sys.argv[1])

from asgiref.sync import async_to_sync  # noqa: E402 (it needs the settings)
from django.contrib.admin.utils import quote  # noqa: E402
from django.contrib.auth.models import Permission, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import AsyncClient, Client, TestCase  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402

from mutirao import Limit, Retry  # noqa: E402
from mutirao.integrations.django import app  # noqa: E402
from mutirao.integrations.django.models import Action, Endpoint, Job, Schedule  # noqa: E402
from mutirao.testing import drain  # noqa: E402
from mutirao.testing.borrowing import BorrowingStore  # noqa: E402

LIST = "/admin/mutirao/job/"


@app.task(retry=Retry.never())
def send(order_id: int, api_key: str = "") -> None:
    """Send a receipt; refuse order 0."""
    if not order_id:
        raise ValueError("no order; password=hunter2")


@app.subscriber("of-code", topic="order.*")
def told_of(event: Any) -> None:
    """Take whatever is published."""


def staff(*permissions: str) -> Client:
    """Return a browser of somebody who has these permissions."""
    user = User.objects.create_user(f"ana{User.objects.count()}", is_staff=True)
    for each in permissions:
        user.user_permissions.add(
            Permission.objects.get(content_type__app_label="mutirao", codename=each)
        )
    client = Client()
    client.force_login(user)
    return client


def values_of(form: Any) -> dict[str, Any]:
    """Return what a form shows, as it is sent again."""
    shown = form.context["adminform"].form.initial
    return {name: "" if value is None else value for name, value in shown.items()}


def act(client: Client, action: str, ids: list[Any], **more: Any) -> str:
    """Give a command on the list of jobs; return what the page tells then."""
    page = client.post(LIST, {"action": action, "_selected_action": ids, **more}, follow=True)
    return told(page)


def told(page: Any) -> str:
    """Return the messages of a page."""
    return " | ".join(str(each) for each in page.context["messages"])


def noted(of: str, name: str) -> list[str]:
    """Return what the audit has that was done to a thing, by somebody of this test."""
    entries = Action.objects.filter(who__startswith="ana", change__isnull=False).order_by("id")
    about = [json.loads(each.change) for each in entries]
    return [each["command"] for each in about if (each.get("of"), each.get("name")) == (of, name)]


class Cases:
    """What the pages show and do; on a connection in a transaction, and on others'."""

    def drain(self) -> None:
        """Run what is due."""
        raise NotImplementedError

    def test_the_list_and_its_filters(self) -> None:
        """The newest jobs, those of a state, those of a filter; what is no filter is told."""
        dead, done = send.enqueue(0).id, send.enqueue(7).id
        self.drain()
        waiting = send.using(queue="mail", tenant="acme").enqueue(8).id
        client = staff("view_job")

        def shown(query: str) -> list[int]:
            page = client.get(f"{LIST}?{query}")
            assert page.status_code == 200
            return [int(each) for each in re.findall(r"job/(\d+)/change", page.content.decode())]

        assert shown("")[:3] == [waiting, done, dead]
        assert shown("state=dead")[0] == dead
        assert shown("queue=mail&state=ready") == [waiting]
        assert shown("q=tenant:acme+arg.order_id:8") == [waiting]
        assert shown("q=tenant:nobody") == []
        assert "nonsense" in told(client.get(f"{LIST}?q=nonsense:1"))
        assert "is a secret" in told(client.get(f"{LIST}?q=arg.api_key:x"))

    def test_a_job_with_its_attempts(self) -> None:
        """Attempts, arguments without secrets, why it does not run; nothing can be edited."""
        id = send.enqueue(0, api_key="s3cret").id
        self.drain()
        client = staff("view_job")
        page = client.get(f"{LIST}{id}/change/").content.decode()
        assert "ValueError: no order" in page
        assert "it has ended: dead" in page
        assert "s3cret" not in page
        assert "hunter2" not in page
        assert 'name="_save"' not in page
        assert client.post(f"{LIST}{id}/change/", {"queue": "x"}).status_code == 403

    def test_who_may_do_what(self) -> None:
        """Each action has a permission of its own; who has none sees no page."""
        assert staff().get(LIST).status_code == 403
        page = staff("view_job", "cancel_job").get(LIST).content.decode()
        offered = re.findall(r'<option value="(\w+)"', page)
        assert "cancel" in offered
        assert not {"retry", "redrive", "change", "delete_selected"} & {*offered}
        id = send.enqueue(1).id
        act(staff("view_job", "cancel_job"), "redrive", [id])
        assert Job.objects.get(id=id).state == "ready"
        anonymous = Client().get(LIST)
        assert anonymous.status_code == 302

    def test_jobs_are_acted_on(self) -> None:
        """As the client does it, with a report, and in the audit with the name."""
        dead, done = send.enqueue(0).id, send.enqueue(2).id
        self.drain()
        late = send.using(delay=3600).enqueue(3).id
        client = staff("view_job", *(f"{each}_job" for each in ("retry", "cancel", "redrive")))
        assert act(client, "retry", [late, done]) == (
            "1 of 2 jobs due now; passed over: 1 succeeded"
        )
        assert Job.objects.get(id=late).state == "ready"
        assert act(client, "cancel", [late]) == "1 of 1 jobs cancelled"
        assert act(client, "redrive", [dead]) == "1 of 1 jobs enqueued again"
        assert Job.objects.get(redrive_of=dead).state == "ready"
        audit = Action.objects.order_by("id").last()
        assert (audit.action, audit.who[:3], audit.done) == ("redrive", "ana", 1)

    def test_jobs_are_changed(self) -> None:
        """By a form, which asks for a value at least."""
        ids = [send.using(delay=3600).enqueue(each).id for each in (4, 5)]
        client = staff("view_job", "change_job")
        form = client.post(LIST, {"action": "change", "_selected_action": ids})
        assert "2 jobs." in form.content.decode()
        empty = client.post(LIST, {"action": "change", "_selected_action": ids, "apply": 1})
        assert "Give at least one new value" in empty.content.decode()
        new = {"apply": 1, "priority": -5, "queue": "other", "delay": "60"}
        assert act(client, "change", ids, **new) == "2 of 2 jobs changed"
        found = Job.objects.filter(id__in=ids)
        assert {(each.priority, each.queue) for each in found} == {(-5, "other")}

    def test_schedules(self) -> None:
        """Their times are changed, as the client allows; they are run, paused and resumed."""
        app.schedules.put("nightly", send.job(6, api_key="s3cret"), "0 3 * * *")
        client, at = staff("view_schedule", "change_schedule"), "/admin/mutirao/schedule/"
        chosen = {"_selected_action": ["nightly"]}
        for action, said in (("run_now", "1 jobs made"), ("pause", "1 paused")):
            assert told(client.post(at, {"action": action, **chosen}, follow=True)) == said
        row = Schedule.objects.get(name="nightly")
        assert (row.status, row.last_job is not None) == ("paused", True)
        form = client.get(f"{at}nightly/change/")
        assert "s3cret" not in form.content.decode()
        values = values_of(form) | {"until_0": "", "until_1": ""}
        bad = client.post(f"{at}nightly/change/", {**values, "cron": "nonsense"})
        assert "nonsense" in str(bad.context["adminform"].form.errors)
        good = client.post(f"{at}nightly/change/", {**values, "cron": "0 4 * * *"})
        assert good.status_code == 302, good.context["adminform"].form.errors
        assert Schedule.objects.get(name="nightly").cron == "0 4 * * *"
        told(client.post(at, {"action": "resume", **chosen}, follow=True))
        assert Schedule.objects.get(name="nightly").status != "paused"
        assert noted("schedule", "nightly") == ["run", "pause", "change", "resume"]
        app.schedules.remove("nightly")
        gone = staff("view_schedule").get(f"{at}nightly/change/")
        assert gone.status_code == 302

    def test_limits(self) -> None:
        """Their numbers are changed; who only looks has no form."""
        name = app.limits.put(Limit(3), queue="mail")
        at = f"/admin/mutirao/limit/{quote(name)}/change/"
        looking = staff("view_limit").get(at).content.decode()
        assert 'name="most"' not in looking
        client = staff("view_limit", "change_limit")
        assert client.post(at, {"most": 5, "per": "", "burst": ""}).status_code == 302
        [found] = [each for each in app.limits.list() if each.name == name]
        assert found.most == 5
        refused = client.post(at, {"most": 0, "per": "", "burst": ""})
        assert "most" in str(refused.context["adminform"].form.errors)
        chosen = {"action": "remove", "_selected_action": [name]}
        assert "1 removed" in told(client.post("/admin/mutirao/limit/", chosen, follow=True))
        assert noted("limit", name) == ["change", "remove"]

    def edit_endpoint(self, client: Client, at: str) -> None:
        """Change it: its URL and its secret stay where nothing is written."""
        signed = Endpoint.objects.get(id="shop").signed
        assert signed
        new = {"topics": "order.* user.new", "rate": "2.5", "filter": '{"a": 1}'}
        values = values_of(client.get(at)) | new
        bad = client.post(at, {**values, "filter": "{"})
        assert "no JSON" in str(bad.context["adminform"].form.errors)
        good = client.post(at, values)
        assert good.status_code == 302, good.context["adminform"].form.errors
        row = Endpoint.objects.get(id="shop")
        assert (row.host, row.rate, row.signed) == ("shop.example", 2.5, signed)
        assert json.loads(row.topics) == ["order.*", "user.new"]

    def test_subscriptions(self) -> None:
        """What they are told of is changed; an endpoint's are its own page's."""
        app.subscriptions.put("audit", told_of, "order.*")
        client = staff("view_subscription", "change_subscription")
        at = "/admin/mutirao/subscription/audit/change/"
        values = values_of(client.get(at))
        bad = client.post(at, {**values, "when_dead": "continue"})
        assert "order_by is not given" in str(bad.context["adminform"].form.errors)
        new = {"topic": "user.*", "filter": '{"kind": "new"}', "order_by": "id", "priority": 3}
        assert client.post(at, {**values, **new}).status_code == 302
        [row] = [each for each in app.subscriptions.list() if each.id == "audit"]
        assert (row.topic, row.filter, row.order_by) == ("user.*", {"kind": "new"}, "id")
        assert (row.priority, row.when_dead, row.queue) == (3, "stop", "default")
        assert noted("subscription", "audit") == ["change"]
        app.subscriptions.remove("audit")

    def test_endpoints_and_the_others(self) -> None:
        """Endpoints are paused and resumed; each list has its page."""
        secret = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        app.endpoints.put("shop", "https://shop.example/hook", "order.*", secret=secret)
        client, at = staff("view_endpoint", "change_endpoint"), "/admin/mutirao/endpoint/"
        for action in ("pause", "resume"):
            chosen = {"action": action, "_selected_action": ["shop"]}
            assert f"1 {action}d" == told(client.post(at, chosen, follow=True))
            assert Endpoint.objects.get(id="shop").paused is (action == "pause")
        assert secret not in client.get(f"{at}shop/change/").content.decode()
        self.edit_endpoint(client, f"{at}shop/change/")
        assert client.get(f"{at}add/").status_code == 403
        client = staff("view_endpoint", "add_endpoint", "delete_endpoint")
        new = {"id": "crm", "url": "https://crm.example/hook", "topics": "order.* user.new"}
        weak = client.post(f"{at}add/", {**new, "secret": "weak", "tenant": "", "group": ""})
        assert "secret" in str(weak.context["adminform"].form.errors)
        asked = {**new, "secret": secret, "tenant": "acme", "group": ""}
        assert client.post(f"{at}add/", asked).status_code == 302
        assert Endpoint.objects.get(id="crm").tenant == "acme"
        again = client.post(f"{at}add/", asked)
        assert "already" in str(again.context["adminform"].form.errors)
        for name in ("crm", "shop"):
            assert client.post(f"{at}{name}/delete/", {"post": "yes"}).status_code == 302
        assert not Endpoint.objects.filter(id__in=["crm", "shop"]).exists()
        assert noted("endpoint", "shop") == ["pause", "resume", "change", "remove"]
        assert noted("endpoint", "crm") == ["add", "remove"]
        last = Action.objects.order_by("id").last()
        page = staff("view_action").get(f"/admin/mutirao/action/{last.id}/change/")
        assert "remove" in page.content.decode()
        for name in ("worker", "graph", "action", "subscription"):
            assert staff(f"view_{name}").get(f"/admin/mutirao/{name}/").status_code == 200


class Dashboard(unittest.TestCase):
    """The dashboard in the project's URLs."""

    def test_who_sees_it(self) -> None:
        """Staff who may see jobs; others are sent to sign in, or refused."""
        assert "login" in Client().get("/jobs/").headers["Location"]
        assert staff().get("/jobs/").status_code == 403
        guest = User.objects.create_user("guest")
        guest.user_permissions.add(Permission.objects.get(codename="view_job"))
        client = Client()
        client.force_login(guest)
        assert client.get("/jobs/").status_code == 403
        assert staff("view_job").get("/jobs/").status_code == 200
        assert 'href="/jobs/"' in staff("view_job").get(LIST).content.decode()

    def test_its_pages_and_forms(self) -> None:
        """Pages, assets and commands work beneath the prefix, as far as permissions reach."""
        id = send.using(delay=3600).enqueue(1).id
        acting = ("view_job", *(f"{each}_job" for each in ("retry", "cancel", "redrive", "change")))
        form = urlencode({"id": str(id), "back": f"/jobs/jobs/{id}"})
        sent = "application/x-www-form-urlencoded"
        for client, state in ((staff("view_job"), "scheduled"), (staff(*acting), "cancelled")):
            page = client.get(f"/jobs/jobs/{id}")
            assert page.status_code == 200, page.content
            [asset] = re.findall(r'href="(/jobs/assets/[^"]+\.css)"', page.content.decode())[:1]
            assert client.get(asset).headers["Content-Type"].startswith("text/css")
            client.post("/jobs/act/cancel", form, sent, headers={"sec-fetch-site": "same-origin"})
            assert Job.objects.get(id=id).state == state
        foreign = {"sec-fetch-site": "cross-site"}
        assert (
            staff(*acting).post("/jobs/act/cancel", form, sent, headers=foreign).status_code == 403
        )
        assert staff(*acting).get("/jobs/nowhere").status_code == 404

    def test_by_asgi(self) -> None:
        """The same view, where Django is served as an ASGI application."""
        client = AsyncClient()
        client.cookies = staff("view_job").cookies
        assert async_to_sync(client.get)("/jobs/jobs").status_code == 200


class InATransaction(Cases, TestCase):  # type: ignore[misc]
    """All of it in the test's own transaction, as with ATOMIC_REQUESTS."""

    def drain(self) -> None:
        """Run it on Django's connection."""
        drain(app, conn=app.connection)

    def setUp(self) -> None:
        """Have the program's own calls see what the test has written, too."""
        own = app.store
        app.store = BorrowingStore(own, app.connection)
        self.addCleanup(setattr, app, "store", own)


class OnItsOwn(Cases, unittest.TestCase):
    """All of it committed, by the application's own connections."""

    def drain(self) -> None:
        """Run it as a worker does."""
        drain(app)


setup_test_environment()
call_command("migrate", verbosity=0, interactive=False)
unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
