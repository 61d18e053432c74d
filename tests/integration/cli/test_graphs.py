"""`mutirao graphs …`: listed, shown, cancelled; and progress where jobs are shown."""

from __future__ import annotations

import asyncio

import pytest

from mutirao.model.graphs.graph import Graph
from mutirao.model.graphs.graph_plan import plan
from mutirao.model.jobs.job import NewJob
from mutirao.model.jobs.records import Progress
from mutirao.sql.store.jobs import SqlStore
from tests.integration.cli.conftest import Shell

pytestmark = pytest.mark.repeats(
    "postgresql", "mysql", decided="conformance/src/mutirao_conformance/graphs.py"
)

APP = "shop:app"


def make_graph(url: str) -> list[int]:
    """Write a graph of three steps, the first of which has come half way."""

    async def make() -> list[int]:
        store = SqlStore(url)
        graph = Graph("report")
        job = NewJob(task="send")
        first, second = graph.add(job, stage="read"), graph.add(job, stage="count")
        graph.add(job, [first, second], stage="write")
        ids = await store.aenqueue_graph(plan(graph))
        await store.report([Progress(ids[0], 1, 1.0, 2.0, "half way")])
        await store.close()
        return ids

    return asyncio.run(make())


def test_a_life(shell: Shell) -> None:
    """Each command answers in a line or a table, or in JSON."""
    assert shell.ok("graphs", "list", APP) == "no such graphs\n"
    ids = make_graph(shell.url)
    listed = shell.ok("graphs", "list", APP).splitlines()
    assert listed[0].split()[:6] == ["ID", "NAME", "STATE", "STAGE", "JOBS", "BLOCKED"]
    assert listed[1].split()[:6] == [str(ids[0]), "report", "running", "read", "3", "1"]
    shown = shell.ok("graphs", "show", APP, ids[0])
    assert "stage:" in shown
    assert shown.splitlines()[-1].split() == [
        str(ids[2]), "write", "send", "blocked", f"{ids[0]},", str(ids[1]),
    ]  # fmt: skip
    found = shell.json("graphs", "show", APP, ids[0])
    assert [step["after"] for step in found["steps"]] == [[], [], ids[:2]]
    assert shell.json("graphs", "list", APP, "--state", "stopped") == []
    jobs = shell.json("list", APP, "--graph", ids[0], "--state", "blocked")
    assert [(job["id"], job["stage"]) for job in jobs] == [(ids[2], "write")]
    assert "1/2 half way" in shell.ok("list", APP)
    assert "half way" in shell.ok("show", APP, ids[0])
    cancelled = shell.ok("graphs", "cancel", APP, ids[0])
    assert cancelled == f"cancelled: {', '.join(map(str, ids))}\n"
    assert shell.json("graphs", "cancel", APP, ids[0]) == {"ids": []}
    assert shell.json("graphs", "show", APP, ids[0])["state"] == "cancelled"


def test_an_unknown_graph(shell: Shell) -> None:
    """It is said so, with the command that lists those there are."""
    for order in ("show", "cancel"):
        refused = shell.run("graphs", order, APP, 7)
        assert refused.exit_code == 1
        assert "There is no graph 7" in refused.stderr
