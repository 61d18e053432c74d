"""`mutirao hosts …`: what operators do about other servers; each says what it has done."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mutirao.model.federation.hosts import Host, HostState, fails
from mutirao.model.jobs.job import NewJob, OutcomeKind
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import FAR_AHEAD, ended, join, take
from tests.integration.cli.conftest import Shell

pytestmark = pytest.mark.repeats(
    "postgresql", "mysql", decided="conformance/src/mutirao_conformance/federation.py"
)

APP = "shop:app"
FEDERATION = """
from mutirao.federation import Federation

Federation(app, keys=lambda sender: None, window=0)
"""
HOST = "b.example"


@pytest.fixture(autouse=True)
def federation(request: pytest.FixtureRequest) -> None:
    """A federation beside the task."""
    name = "sqlite_shell" if "sqlite_shell" in request.fixturenames else "shell"
    page = request.getfixturevalue(name).directory / "shop.py"
    page.write_text(page.read_text() + FEDERATION)


def delivery(n: int) -> NewJob:
    """Return a delivery to the host."""
    args = f'{{"host": "{HOST}", "inbox": "https://{HOST}/{n}"}}'
    return NewJob(task="federation.deliver", queue="federation", args=args)


async def _two_die(store: SqlStore) -> None:
    await store.aenqueue([delivery(1), delivery(2)])
    worker = await join(store)
    claims = await take(store, worker, now=FAR_AHEAD, queues=["federation"])
    assert len(claims) == 2
    await store.settle(worker, [ended(each, OutcomeKind.DEAD) for each in claims])
    await store.retire(worker)


async def _is_down(store: SqlStore) -> None:
    await store.federation.change_host(
        HOST, lambda was, now: fails(was, now, was.changed_at), queue="q"
    )


async def _is_lost(store: SqlStore) -> None:
    def lost(was: Host, now: datetime) -> Host:
        before = replace(was, failing_since=now - timedelta(days=31))
        return fails(before, now, before.changed_at)

    await store.federation.change_host(HOST, lost, queue="q")


async def _is_up(store: SqlStore) -> None:
    await store.federation.change_host(
        HOST, lambda was, now: replace(was, state=HostState.UP), queue="q"
    )


def test_a_life(shell: Shell) -> None:
    """Held, flushed, lost, back again with what died meanwhile, and forgotten."""
    assert shell.ok("hosts", "list", APP) == "no hosts\n"
    assert shell.ok("hosts", "hold", APP, HOST) == f"host {HOST} is held\n"
    assert shell.json("hosts", "list", APP)[0]["held"] is True
    assert shell.ok("hosts", "flush", APP, HOST) == f"host {HOST} is tried\n"
    shell.store(_is_down)
    [down] = shell.json("hosts", "list", APP)
    assert (down["state"], down["held"], down["failures"]) == ("failing", False, 1)
    assert down["next_probe"] is not None
    assert shell.json("hosts", "flush", APP, HOST) == {"flushed": HOST}
    assert shell.json("hosts", "list", APP)[0]["next_probe"] is None

    shell.store(_is_lost)
    shell.store(_two_die)
    assert "unavailable" in shell.ok("hosts", "list", APP)
    assert shell.json("hosts", "list", APP, "--redrivable") == []
    shell.store(_is_up)
    [back] = shell.json("hosts", "list", APP, "--redrivable")
    assert (back["name"], back["state"], back["dead"]) == (HOST, "up", 2)
    assert len(shell.json("hosts", "redrive", APP, HOST, "--limit", 1)["redriven"]) == 1
    said = shell.ok("hosts", "redrive", APP, HOST)
    assert said == f"1 deliveries to {HOST} are sent again\n"
    assert shell.ok("hosts", "list", APP, "--redrivable") == "no hosts\n"

    said = shell.ok("hosts", "limit", APP, HOST, 1)
    assert said == f"host {HOST} gets 1 requests at once\n"
    assert shell.json("hosts", "limit", APP, HOST) == {"limited": HOST}
    said = shell.ok("hosts", "forget", APP, HOST)
    assert said == f"host {HOST} is forgotten; 2 deliveries are cancelled\n"
    assert shell.ok("hosts", "list", APP) == "no hosts\n"


@pytest.mark.parametrize("command", ["flush", "forget"])
def test_what_is_not_known(sqlite_shell: Shell, command: str) -> None:
    """Is told with where to look."""
    assert "hosts list" in sqlite_shell.refused(1, "hosts", command, APP, "c.example")
