"""Enqueues a graph: its jobs like any others, then the rows that make them wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from mutirao.errors import InvalidJob
from mutirao.model.jobs.job import NewJob
from mutirao.model.row_json import read_object, unreadable
from mutirao.sql.drivers.steps import Execute, Steps
from mutirao.sql.enqueue.job_columns import FACTS

if TYPE_CHECKING:
    from mutirao.model.graphs.graph_plan import Needs, Plan

MAX_ROWS_PER_STATEMENT = 2_000


@dataclass(frozen=True, slots=True)
class GraphStatements:
    """A dialect's statements for the rows of a graph; parameters, but of `graph`, are JSON."""

    graph: str  # id, name, number of steps
    steps: str
    gates: str
    edges: str
    park: str  # ids of jobs


def write_graph(
    plan: Plan, enqueue: Callable[[Iterable[NewJob]], Steps], words: GraphStatements
) -> Steps:
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
    """Return a job to be enqueued later, and the steps whose results it uses, as JSON."""
    asked = {name: value for name in _OPTIONS if (value := getattr(job, name))}
    return msgspec.json.encode({"job": asked, "needs": needs}).decode()


def from_text(text: str) -> tuple[NewJob, Needs]:
    """Return the job and the needs that `as_text` wrote.

    Raises:
        UnreadableRow: another program wrote something else.
    """
    what = "how it is compensated"
    found = read_object(text, what)
    try:
        job, needs = found["job"], found["needs"]
        return NewJob(**job | {"tags": tuple(job.get("tags", ()))}), {**needs}
    except (LookupError, TypeError, ValueError, AttributeError, InvalidJob) as error:
        raise unreadable(what, error) from error


# Without times: a compensating job is due when the ones before it have ended.
_OPTIONS = tuple(name for name in FACTS if name not in ("key", "redrive_of", "on_dead_of"))


def _step_rows(plan: Plan, ids: list[int]) -> Iterator[dict[str, Any]]:
    from mutirao.model.graphs.graph_plan import numbered  # few programs have graphs

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
    while chunk := list(islice(rows, MAX_ROWS_PER_STATEMENT)):
        yield msgspec.json.encode(chunk).decode()
