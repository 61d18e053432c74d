"""`enqueue`: what is asked arrives, and what does not fit is refused before it is written."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from mutirao.model.jobs.records import JobFilter
from tests.integration.cli.conftest import Shell

pytestmark = pytest.mark.repeats(
    "postgresql", "mysql", decided="conformance/src/mutirao_conformance/enqueueing.py"
)


def test_enqueue(shell: Shell) -> None:
    """The task's own options apply where none are given."""
    said = shell.ok("enqueue", "shop:app", "send", '{"order_id": 7}')
    assert said == "enqueued job 1 (send) in queue mail\n"
    job = shell.store(lambda store: store.job(1))
    assert (job.args, job.tags, job.priority) == ({"order_id": 7}, ("receipt",), 0)


def test_every_option(shell: Shell) -> None:
    """Each option reaches the job."""
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    handle = shell.json(
        *("enqueue", "shop:app", "send"),
        *("--queue", "slow", "--priority", "-5", "--run-at", "2040-01-02T03:04:05Z"),
        *("--max-attempts", "3", "--timeout", "1m", "--key", "k", "--tag", "a", "--tag", "b"),
        *("--metadata", '{"by": "me"}', "--traceparent", trace),
        *("--tenant", "acme", "--group", "north", "--expires", "2041-01-02T03:04:05Z"),
    )
    assert handle == {"id": 1, "task": "send", "queue": "slow", "how": "inserted"}
    job = shell.store(lambda store: store.job(1))
    assert (job.queue, job.priority, job.max_attempts, job.timeout) == ("slow", -5, 3, 60.0)
    assert job.run_at == datetime(2040, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (job.key, job.tags) == ("k", ("receipt", "a", "b"))
    assert job.metadata == {"by": "me", "@expires": "2041-01-02T03:04:05+00:00"}
    assert job.expires_at == datetime(2041, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert "expires at:    2041-01-02" in shell.ok("show", "shop:app", "1")
    assert (job.args, job.traceparent) == ({}, trace)
    assert (job.tenant, job.group) == ("acme", "north")
    [found] = shell.json("list", "shop:app", "--tenant", "acme", "--group", "north")
    assert found["tenant"] == "acme"
    assert shell.json("list", "shop:app", "--tenant", "north") == []


def test_unique_keys(shell: Shell) -> None:
    """It is said which job stands, and how that came to."""
    again = ("enqueue", "shop:app", "send", "--key", "k", "--scope", "s")
    shell.ok(*again, "--unique-for", "1h")
    assert shell.ok(*again) == "nothing to do: job 1 (send) has the key, in queue mail\n"
    said = shell.ok(*again, "--on-conflict", "replace", "--debounce-limit", "1m")
    assert said == "enqueued job 2 (send) in place of the one that waited, in queue mail\n"


def test_versions(shell: Shell) -> None:
    """A number or a moment; an older one changes nothing."""
    late = ("enqueue", "shop:app", "send", "--key", "k", "--on-conflict", "rerun", "--as-of")
    shell.ok(*late, "2026-11-24T09:00:00Z")
    said = shell.ok(*late, "17.5")
    assert said == "nothing to do: job 1 (send) is of a newer version, in queue mail\n"
    assert "is no moment" in shell.refused(2, *late, "soon")
    assert "enqueued" in shell.ok(*late[:4], "l", "--unique-for", "forever")


RULE = """

from mutirao import Supersede


@app.task(queue="mail", supersede=Supersede.activities())
async def tell(type: str) -> None: ...
"""


def test_a_supersede_rule(shell: Shell) -> None:
    """It is said what is left; and what a key means cannot be said twice."""
    with (shell.directory / "shop.py").open("a") as code:
        code.write(RULE)
    tell = ("enqueue", "shop:app", "tell", "--key", "k")
    said = [shell.ok(*tell, json.dumps({"type": kind})) for kind in ("Create", "Update", "Delete")]
    assert said == [
        "enqueued job 1 (tell) in queue mail\n",
        "enqueued job 2 (tell), merged with the one that waited, in queue mail\n",
        "nothing to do: job 3 (tell) and the one that waited make each other redundant,"
        " in queue mail\n",
    ]
    shell.ok(*tell, '{"type": "Like"}')
    assert shell.ok(*tell, '{"type": "Move"}') == (
        "enqueued job 5 (tell) to run after the one before it, in queue mail\n"
    )
    shown = shell.refused(1, *tell, '{"type": "Move"}', "--on-conflict", "keep")
    assert "the task has a supersede rule" in shown


def test_delay(shell: Shell) -> None:
    """A delay is a length of time."""
    shell.ok("enqueue", "shop:app", "send", "--delay", "2h")
    job = shell.store(lambda store: store.job(1))
    assert (job.run_at - job.enqueued_at).total_seconds() == pytest.approx(7200, abs=60)


@pytest.mark.parametrize(
    ("status", "args", "expected"),
    [
        (1, ["nope"], "no task 'nope' is registered here; there are: send"),
        (1, ["send", '{"order": 7}'], "send(order_id: int = 0"),
        (1, ["send", '{"order_id": "x"}'], "cannot take these arguments"),
        (1, ["send", "--priority", "40000"], "from -32768 to 32767"),
        (1, ["send", "--delay", "1h", "--run-at", "2040-01-01T00:00:00Z"], "give one of them"),
        (1, ["send", "--queue", "q" * 101], "queue name has 101 characters"),
        (2, ["send", "[1]"], "is no JSON object"),
        (2, ["send", "{"], "is no JSON"),
        (2, ["send", "--run-at", "2040-01-01"], "has no time zone; add Z"),
        (2, ["send", "--expires", "soon"], "is no moment; write it as 2026"),
        (2, ["send", "--delay", "-5"], "is no length of time"),
        (2, ["send", "--metadata", "7"], "is no JSON object"),
    ],
)
def test_what_does_not_fit(
    sqlite_shell: Shell, status: int, args: list[str], expected: str
) -> None:
    """The reason is said, and nothing was written."""
    assert expected in sqlite_shell.refused(status, "enqueue", "shop:app", *args)
    assert sqlite_shell.store(lambda store: store.jobs(JobFilter())) == []
