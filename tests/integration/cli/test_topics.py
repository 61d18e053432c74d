"""`mutirao publish` and `subscriptions …`: the whole life of one, and what bad input gets."""

from __future__ import annotations

from contextlib import closing

import pytest

from mutirao import Mutirao
from mutirao.testing import drain
from tests.integration.cli.conftest import Shell

pytestmark = pytest.mark.repeats(
    "postgresql", "mysql", decided="conformance/src/mutirao_conformance/topics.py"
)

APP = "shop:app"
TOPICS = """
from mutirao import Event

app.topic("order.placed")


@app.subscriber("notify")
def notify(event: Event) -> None: ...
"""


@pytest.fixture(autouse=True)
def topics(request: pytest.FixtureRequest) -> None:
    """A topic and a subscriber beside the task."""
    name = "sqlite_shell" if "sqlite_shell" in request.fixturenames else "shell"
    page = request.getfixturevalue(name).directory / "shop.py"
    page.write_text(page.read_text() + TOPICS)


def test_a_life(shell: Shell) -> None:
    """Put, listed, disabled, enabled, removed; each answers in a line."""
    put = ("subscriptions", "put", APP, "acme", "notify", "order.*", "--tenant", "acme")
    shell.ok(*put, "--key", "id", "--tag", "bulk", "--limit", 5, "--per", "1m")
    assert "give --limit" in shell.refused(2, *put, "--per", "1m")
    assert shell.json("limits", "list", APP)[0]["name"] == "subscription acme rate"
    assert shell.json("subscriptions", "list", APP)[0]["key"] == "id"
    of_key = ("--on-conflict", "replace", "--debounce-limit", "1h", "--retry", "5s,1m")
    assert shell.ok(*put, "--key", "id", *of_key).startswith("subscription acme")
    assert "leave max_attempts out" in shell.refused(1, *put, "--retry", "5s", "--max-attempts", 3)
    assert shell.ok(*put, "--key", "id", "--unique-for", "forever", "--retry", "never")
    in_order = ("--order-by", "id", "--when-dead", "continue")
    said = shell.ok(*put, "--filter", '{"paid": true}', "--queue", "slow", *in_order)
    assert said == "subscription acme receives order.*\n"
    assert shell.ok("limits", "list", APP) == "no limits\n"
    assert shell.ok("subscriptions", "disable", APP, "acme") == "subscription acme is disabled\n"
    assert "disabled" in shell.ok("subscriptions", "list", APP)
    assert shell.json("subscriptions", "enable", APP, "acme") == {"enabled": "acme"}
    [found] = shell.json("subscriptions", "list", APP)
    assert (found["tenant"], found["filter"], found["queue"]) == ("acme", {"paid": True}, "slow")
    assert (found["order_by"], found["when_dead"], found["stopped"]) == ("id", "continue", 0)
    assert (found["active"], found["origin"], found["kind"]) == (True, "call", "handler")
    said = shell.ok("publish", APP, "order.placed", '{"paid": true}', "--tenant", "acme")
    assert said == "published on order.placed: job 1 in queue default\n"
    assert shell.ok("replay", APP, "acme", "--since", "1h") == "0 deliveries for acme\n"
    assert shell.ok("subscriptions", "remove", APP, "acme") == "subscription acme is removed\n"
    assert shell.ok("subscriptions", "list", APP) == "no subscriptions\n"


def test_a_delivery_is_shown(sqlite_shell: Shell) -> None:
    """With what was published, which its own row has not."""
    shell = sqlite_shell
    shell.ok("subscriptions", "put", APP, "acme", "notify", "order.*")
    shell.ok("publish", APP, "order.placed", '{"order": {"id": 7}}')
    with closing(Mutirao(shell.url)) as app:
        app.topic("order.placed")
        drain(app)
    assert "payload:" not in shell.ok("show", APP, 1)
    [line] = [each for each in shell.ok("show", APP, 2).splitlines() if "payload:" in each]
    assert line.endswith('{"order":{"id":7}}')
    assert shell.json("show", APP, 2)["payload"] == {"order": {"id": 7}}
    assert not {"payload", "result", "attempts"} & set(shell.json("list", APP)[0])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("publish", APP, "order.palced", "{}"), "do you mean order.placed?"),
        (("subscriptions", "put", APP, "x", "send", "a"), "<Task 'send'"),
        (("subscriptions", "put", APP, "x", "sned", "a"), "no task 'sned'"),
        (("subscriptions", "put", APP, "x", "notify", "a..b"), "the topic is 'a..b'"),
        (("subscriptions", "put", APP, "x", "notify", "a", "--filter", "{}"), "the filter is {}"),
        (("replay", APP, "x", "--since", "2h"), "no subscription 'x'"),
        (("subscriptions", "disable", APP, "x"), "no subscription 'x'"),
        (("subscriptions", "remove", APP, "x"), "no subscription 'x'"),
    ],
)
def test_refused(sqlite_shell: Shell, words: tuple[str, ...], expected: str) -> None:
    """In a line that says what is wrong."""
    assert expected in sqlite_shell.refused(1, *words)
