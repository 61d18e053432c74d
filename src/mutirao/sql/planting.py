"""How a graph gets in: its jobs as any others, then the rows that make them wait for each other."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from mutirao.job import NewJob
from mutirao.planning import Needs, Plan, numbered
from mutirao.sql.callers.steps import Execute, Steps

CHUNK = 2_000  # rows that travel in one statement


@dataclass(frozen=True, slots=True)
class Planting:
    """A dialect's own words for the rows of a graph, each given as a JSON array but `graph`."""

    graph: str  # id, name, number of steps
    steps: str
    gates: str
    edges: str
    park: str  # ids of jobs


def plant(plan: Plan, enqueue: Callable[[Iterable[NewJob]], Steps], words: Planting) -> Steps:
    """Write a graph and return the ids of its jobs, in the order of its steps."""
    ids = yield from enqueue(plan.jobs)
    yield Execute(words.graph, (ids[0], plan.name, len(ids)), answers=False)
    blocked = [id for id, step in zip(ids, plan.steps, strict=True) if step.gate is not None]
    for sql, rows in (
        (words.steps, _step_rows(plan, ids)),
        (words.gates, ({"id": ids[g], "left": len(each)} for g, each in plan.gates.items())),
        (words.edges, _edge_rows(plan, ids)),
        (words.park, iter(blocked)),
    ):
        for chunk in _chunks(rows):
            yield Execute(sql, (chunk,), answers=False)
    return ids


def as_text(job: NewJob, needs: Needs) -> str:
    """Return a job that may be enqueued later, and the steps whose results it takes, as JSON."""
    asked = {name: value for name in _KEPT if (value := getattr(job, name))}
    return msgspec.json.encode({"job": asked, "needs": needs}).decode()


def from_text(text: str) -> tuple[NewJob, Needs]:
    """Return what `as_text` wrote."""
    found = msgspec.json.decode(text)
    job = found["job"]
    return NewJob(**job | {"tags": tuple(job.get("tags", ()))}), found["needs"]


# A job that undoes another one is due when its turn has come.
_KEPT = (
    "task", "args", "queue", "priority", "max_attempts", "timeout", "tags", "metadata",
    "traceparent", "fingerprint",
)  # fmt: skip


def _step_rows(plan: Plan, ids: list[int]) -> Iterator[dict[str, Any]]:
    for id, step in zip(ids, plan.steps, strict=True):
        needs = numbered(step.needs, ids)
        undo = step.compensate
        yield {
            "id": id,
            "graph": ids[0],
            "depth": step.depth,
            "stage": step.stage,
            "on_dead": str(step.on_dead),
            "gate": None if step.gate is None else ids[step.gate],
            "needs": msgspec.json.encode(needs).decode() if needs else None,
            "compensate": undo and as_text(undo, numbered(step.compensate_needs, ids)),
        }


def _edge_rows(plan: Plan, ids: list[int]) -> Iterator[dict[str, int]]:
    for gate, before in plan.gates.items():
        for each in before:
            yield {"step": ids[each], "gate": ids[gate]}


def _chunks(rows: Iterator[Any]) -> Iterator[str]:
    while chunk := list(islice(rows, CHUNK)):
        yield msgspec.json.encode(chunk).decode()
