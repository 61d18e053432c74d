"""`mutirao endpoints …`: the whole life of one, and what bad input gets."""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mutirao.model.jobs.job import Claim, OutcomeKind
from mutirao.sql.store.jobs import SqlStore
from mutirao.webhooks import new_secret
from mutirao_conformance.endpoints import attempt, came, claimed, delivered, endpoint
from mutirao_conformance.kit import finish, join
from tests.integration.cli.conftest import Shell
from tests.support.waiting import until

pytestmark = pytest.mark.repeats(
    "postgresql", "mysql", decided="conformance/src/mutirao_conformance/endpoints.py"
)

APP = "shop:app"
URL = "https://erp.example/hook?token=hide-me"


def test_a_life(shell: Shell, tmp_path: Path) -> None:
    """Put with a secret from a file, listed without it, rotated, held, tried, sent to, removed."""
    secret = tmp_path / "secret"
    secret.write_text(f"{new_secret()}\n")
    two = ("--unsigned", "--signer", "hub")
    put = ("endpoints", "put", APP, "erp", URL, "order.*", "invoice.paid")
    assert "new_secret" in shell.run(*put).stderr
    assert "one of --secret-file, --signer and --unsigned" in shell.refused(2, *put, *two)
    assert "tenant has 10000" in shell.refused(1, *put, "--unsigned", "--tenant", "t" * 10_000)
    assert shell.ok(*put, "--secret-file", secret) == "endpoint erp is in force\n"
    one = ("endpoints", "put", APP, "erp", URL, "order.*", "--order-by", "id", "--retry", "5s,1h")
    shell.ok(*one, "--when-dead", "stop")
    [found] = shell.json("endpoints", "list", APP)
    assert (found["order_by"], found["when_dead"], found["retry"]) == ("id", "stop", [5, 3_600])
    shell.ok(*put, "--rate", 5, "--tenant", "acme")
    secret.write_text(new_secret())
    output = shell.ok("endpoints", "rotate", APP, "erp", "--secret-file", secret)
    assert output == "endpoint erp has another secret\n"
    [found] = shell.json("endpoints", "list", APP)
    assert (found["topics"], found["rate"]) == (["order.*", "invoice.paid"], 5.0)
    assert (found["tenant"], found["signed"]) == ("acme", "standard")
    for word in ("whsec", "hide-me"):
        assert word not in shell.ok("endpoints", "show", APP, "erp") + str(found)
    assert shell.json("endpoints", "pause", APP, "erp") == {"paused": "erp"}
    assert "paused" in shell.ok("endpoints", "list", APP)
    shell.ok("endpoints", "resume", APP, "erp")
    assert shell.ok("endpoints", "probe", APP, "erp") == "endpoint erp has no open breaker\n"
    assert shell.json("endpoints", "test", APP, "erp")["task"] == "mutirao.webhook"
    assert shell.json("endpoints", "replay", APP, "erp", "--after", "2h") == {"replayed": []}
    shell.ok("endpoints", "remove", APP, "erp")
    assert shell.ok("endpoints", "list", APP) == "no endpoints\n"
    assert "no endpoint is called 'erp'" in shell.run("endpoints", "pause", APP, "erp").stderr


SUBSCRIBER = """

placed = app.topic("order.placed", dict)


@app.subscriber("told")
def told(event: dict) -> None:
    print(event)
"""


@pytest.mark.parametrize(("status", "state"), [(200, "succeeded"), (503, "dead")])
def test_the_answer_to_a_sample(shell: Shell, status: int, state: str) -> None:
    """Waited for, and printed; the command fails where it has not arrived."""
    shell.store(lambda store: store.endpoints.put(endpoint()))

    async def answer(store: SqlStore) -> None:
        worker, claims = await join(store), list[Claim]()

        async def comes() -> bool:
            claims.extend(await claimed(store, worker))
            return bool(claims)

        await until(comes)
        kind = OutcomeKind.SUCCEEDED if status == 200 else OutcomeKind.DEAD
        await came(store, [attempt(each, status) for each in claims])
        await finish(store, worker, claims, kind)

    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(shell.store, answer)
        done = shell.run("endpoints", "test", APP, "erp", "--wait", "30s", "--json")
        answering.result()
    values = json.loads(done.stdout)
    assert done.exit_code == (0 if status == 200 else 1)
    assert (values["state"], values["status"]) == (state, status)
    assert values["milliseconds"] >= 0


def test_nobody_delivers(shell: Shell) -> None:
    """Said after the time that was given."""
    shell.store(lambda store: store.endpoints.put(endpoint()))
    assert "job" in shell.refused(1, "endpoints", "test", APP, "erp", "--wait", "0.1")


def test_what_will_not_be_sent(sqlite_shell: Shell) -> None:
    """A URL that workers refuse, and a topic that there is not: written, and said."""
    put = ("endpoints", "put", APP, "erp", "http://10.0.0.1/", "--unsigned")
    done = sqlite_shell.run(*put, "order.placed")
    assert (done.exit_code, done.stdout) == (0, "endpoint erp is in force\n")
    assert "workers do not call this URL unless their options say so" in done.stderr
    assert "no topic" not in done.stderr
    module = sqlite_shell.directory / "shop.py"
    module.write_text(module.read_text() + SUBSCRIBER)
    sys.modules.pop("shop")
    for asked in (
        (*put, "order.*", "order.paid"),
        ("subscriptions", "put", APP, "s", "told", "order.paid"),
    ):
        done = sqlite_shell.run(*asked)
        assert done.exit_code == 0
        assert "no topic of this application is 'order.paid'; its topics: order.placed" in (
            done.stderr
        )
        assert "'order.*'" not in done.stderr


def test_what_was_missed(sqlite_shell: Shell) -> None:
    """After an answer of 410 and a resume: which replay sends it."""
    sqlite_shell.store(lambda store: store.endpoints.put(endpoint()))

    async def gone(store: SqlStore) -> None:
        worker = await join(store)
        await delivered(store, worker)
        await came(store, [attempt(each, 410) for each in await claimed(store, worker)])

    sqlite_shell.store(gone)
    done = sqlite_shell.run("endpoints", "resume", APP, "erp")
    assert done.stdout == "endpoint erp is resumed\n"
    [found] = re.findall("`mutirao (replay .*)`", done.stderr)
    assert found.startswith("replay endpoint:erp --since ")
    words = found.split()
    made = sqlite_shell.json(words[0], APP, *words[1:])
    assert made == {"deliveries": 0}  # nothing was published meanwhile
    assert sqlite_shell.ok("endpoints", "resume", APP, "erp") == "endpoint erp is resumed\n"
