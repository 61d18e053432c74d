"""What callers compose, what they are told, and what is refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, make_url

from mutirao import (
    PREVIOUS,
    Graph,
    GraphState,
    Job,
    JobState,
    Mutirao,
    Task,
    chain,
    group,
    step,
)
from mutirao.errors import InvalidArguments, InvalidGraph, InvalidJob, InvalidTask, UnknownGraph
from mutirao.testing import capture, drain, inline

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/graphs.py"
)


def double(n: int) -> int:
    """Return twice as much."""
    return 2 * n


def total(numbers: list[int], extra: int = 0) -> int:
    """Return the sum."""
    return sum(numbers) + extra


@pytest.fixture
def tasks(app: Mutirao) -> tuple[Task[..., int], Task[..., int]]:
    """Two tasks: one for members of a group, one that takes their results."""
    return app.task(double), app.task(keep_result=True)(total)


def test_results_flow(app: Mutirao, tasks: tuple[Task[..., int], Task[..., int]]) -> None:
    """Through groups and chains; the last one's result is the whole."""
    one, all_of = tasks
    handle = app.enqueue_graph(
        chain(group(one.job(n) for n in range(4)), all_of.job(PREVIOUS), one.job(PREVIOUS)),
        name="sums",
    )
    assert [job.task for job in handle.jobs] == ["double"] * 4 + ["total", "double"]
    drain(app)
    graph = app.graph(handle.id)
    assert (graph.state, graph.name, graph.stage) == (GraphState.SUCCEEDED, "sums", None)
    assert handle.jobs[4].result() == 12
    assert app.graphs("succeeded")[0].id == handle.id


def test_an_empty_group_is_done_at_once(
    app: Mutirao, tasks: tuple[Task[..., int], Task[..., int]]
) -> None:
    """Lists that are made at run time may be empty: its result is a list, too, and order holds."""
    one, all_of = tasks
    nothing = group(one.job(n) for n in range(0))
    first = app.enqueue_graph(chain(nothing, all_of.job(PREVIOUS, extra=3)))
    between = chain(one.job(1), group(nothing), all_of.job(nothing.result, extra=4))
    waiting = app.enqueue_graph(between)
    beside = app.enqueue_graph(chain(group(one.job(2), nothing), all_of.job([5], extra=6)))
    assert [job.state for job in app.jobs(graph=waiting.id)] == [JobState.BLOCKED, JobState.READY]
    drain(app)
    assert [each.jobs[-1].result() for each in (first, waiting, beside)] == [3, 4, 11]


def test_results_of_any_step_before(app: Mutirao, tasks: Any) -> None:
    """Given by the step, in lists too, beside plain arguments; later steps by name."""
    one, all_of = tasks
    graph = Graph("free")
    first, second = graph.add(one.job(1)), graph.add(one.job(n=2), stage="second")
    last = graph.add(all_of.job([first.result, second.result], extra=100), after=[first, second])
    graph.order(first, second)
    handle = app.enqueue_graph(graph)
    assert app.job(handle[second].id).state is JobState.BLOCKED
    assert app.job(handle[second].id).stage == "second"
    drain(app)
    assert handle[last].result(timeout=1) == 106


def test_types_are_checked_at_the_caller(app: Mutirao, tasks: Any) -> None:
    """As far as the arguments are known."""
    one, all_of = tasks
    with pytest.raises(InvalidArguments, match="Expected `int`, got `str`"):
        all_of.job(PREVIOUS, extra="x")
    with pytest.raises(InvalidArguments, match="missing a required argument: 'numbers'"):
        all_of.job(extra=PREVIOUS)
    with pytest.raises(InvalidJob, match=r"only app\.enqueue_graph can enqueue it"):
        one.enqueue(PREVIOUS)
    assert app.jobs() == []


def test_steps_are_no_arguments(app: Mutirao, tasks: Any) -> None:
    """Where anything fits, a result still stands for one, and a step is refused."""
    one, _ = tasks

    @app.task
    def show(what, more=None):  # type: ignore[no-untyped-def]
        assert what == 4

    first = step(one.job(2))
    with pytest.raises(InvalidArguments, match="Step has no form in JSON"):
        show.job(first)
    handle = app.enqueue_graph(chain(first, show.job(PREVIOUS)))
    drain(app)
    assert app.job(handle.jobs[1].id).state is JobState.SUCCEEDED


def test_a_result_of_another_type(app: Mutirao, tasks: Any) -> None:
    """It is converted when the step runs; what does not fit makes the job dead, and says why."""
    one, all_of = tasks
    handle = app.enqueue_graph(chain(one.job(1), all_of.job(PREVIOUS)))
    drain(app)
    dead = app.job(handle.jobs[1].id)
    assert (dead.state, dead.error_type) == (JobState.DEAD, "InvalidArguments")
    assert "Expected `array`, got `int`" in (dead.error or "")


def _circle(one: Any, _: Any) -> Graph:
    graph = Graph()
    first = graph.add(one.job(1))
    second = graph.add(one.job(2), after=first)
    graph.order(second, first)
    return graph


def _of_another(one: Any, _: Any) -> Graph:
    graph = Graph()
    graph.add(one.job(1), after=step(one.job(2)))
    return graph


def _twice(one: Any, _: Any) -> object:
    same = step(one.job(1))
    return chain(same, same)


def _added_twice(one: Any, _: Any) -> object:
    graph = Graph()
    graph.add(graph.add(one.job(1)))
    return graph


REFUSED: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "circle": (_circle, "wait for each other: a step of 'double' → a step of 'double'"),
    "of another": (_of_another, "is no part of this graph; add it first"),
    "twice": (_twice, "is in the graph twice"),
    "added twice": (_added_twice, "in the graph already; add each once"),
    "empty chain": (lambda one, _: chain(), "a chain is empty; give it at least one job"),
    "empty group": (lambda one, _: group([]), "the graph has no steps, as .* all its groups are"),
    "empty graph": (lambda one, _: Graph(), "the graph has no steps, as it is empty"),
    "nothing before": (lambda one, _: chain(one.job(PREVIOUS)), "n of 'double' is PREVIOUS, which"),
    "beside": (
        lambda one, _: group(s := step(one.job(1)), one.job(s.result)),
        "is the result of a step of 'double', which does not come before it",
    ),
    "not in it": (
        lambda one, _: chain(one.job(1), one.job(step(one.job(2)).result)),
        "in the same graph",
    ),
    "a key": (
        lambda one, _: chain(one.using(key="k").job(1)),
        "has the key 'k', so another job might stand for it",
    ),
    "no compensating job": (
        lambda one, _: step(one.job(1), compensate=one),
        "a step is <Task 'double'",
    ),
    "a compensating key": (
        lambda one, _: step(one.job(1), compensate=one.using(key="k").job(1)),
        "has the key 'k'",
    ),
    "nothing undoes it": (
        lambda one, _: chain(step(one.job(1), compensate=one.job(PREVIOUS)), one.job(2)),
        "how 'double' is undone, but nothing would ever undo it",
    ),
    "on_dead": (lambda one, _: step(one.job(1), on_dead="retry"), "stop, continue, compensate"),
    "stage": (lambda one, _: step(one.job(1), stage="s" * 201), "text of 1 to 200 characters"),
    "name": (lambda one, _: Graph(""), "the name is ''; give text of 1 to 200"),
    "no part": (lambda one, _: chain(one), "a part of a graph is <Task 'double'"),
    "no job": (lambda one, _: step(7), "a step is 7; give a job"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input(app: Mutirao, tasks: Any, what: str) -> None:
    """It is refused at the caller, with what to do; nothing is written."""
    compose, found = REFUSED[what]
    with pytest.raises(InvalidGraph, match=found):
        app.enqueue_graph(compose(*tasks))  # type: ignore[arg-type]
    assert app.jobs() == []
    assert app.graphs() == []


def test_steps_of_a_handle(app: Mutirao, tasks: Any) -> None:
    """Are found by what `step` returned; for anything else there is an error that says so."""
    one, _ = tasks
    first = step(one.job(1))
    handle = app.enqueue_graph(chain(first, one.job(2)))
    assert handle[first] == handle.jobs[0]
    others: list[Any] = [step(one.job(1)), one.job(2), {}]
    for other in others:
        with pytest.raises(InvalidGraph, match="give what step"):
            handle[other]


def test_options_of_a_graph(app: Mutirao, tasks: Any) -> None:
    """A Graph has its own; bad options of a job are found, whichever it is."""
    one, _ = tasks
    graph = Graph("mine", on_dead="continue")
    graph.add(one.job(1))
    with pytest.raises(InvalidGraph, match="a Graph has a name and on_dead of its own"):
        app.enqueue_graph(graph, name="other")
    with pytest.raises(InvalidJob, match="priority is 99999"):
        app.enqueue_graph(chain(one.job(1), one.using(priority=99_999).job(2)))
    with pytest.raises(UnknownGraph, match="There is no graph 7"):
        app.cancel_graph(7)
    assert app.jobs() == []


@pytest.mark.parametrize("keep", [0, -1, "1h", 1e11])
def test_bad_keep_result(app: Mutirao, keep: Any) -> None:
    """It is refused where the task is defined."""
    with pytest.raises(InvalidTask, match="keep_result is"):
        app.task(keep_result=keep)(double)


def test_in_the_callers_transaction(app: Mutirao, tasks: Any, url: str) -> None:
    """All of it or nothing, savepoints included; the connection is left as it was found."""
    one, all_of = tasks
    composed = chain(group(one.job(n) for n in range(210)), all_of.job(PREVIOUS))
    engine = create_engine(url)
    with engine.connect() as conn:
        app.enqueue_graph(composed, conn=conn)
        conn.rollback()
        assert app.graphs() == []
        with conn.begin():
            with conn.begin_nested() as savepoint:
                app.enqueue_graph(composed, conn=conn)
                savepoint.rollback()
            kept = app.enqueue_graph(composed, conn=conn)
    engine.dispose()
    assert [graph.id for graph in app.graphs()] == [kept.id]
    drain(app, concurrency=50)
    assert kept.jobs[-1].result(timeout=9) == 2 * sum(range(210))


async def test_through_plain_drivers(app: Mutirao, tasks: Any, pg_url: str) -> None:
    """In autocommit mode, too, a graph is written in one transaction."""
    one, all_of = tasks
    plain = make_url(pg_url).set(drivername="postgresql").render_as_string(hide_password=False)
    there = Mutirao(pg_url)
    composed = chain(group(one.job(1), one.job(2)), all_of.job(PREVIOUS))
    with psycopg.connect(plain, autocommit=True) as conn:
        first = there.enqueue_graph(composed, conn=conn)
        with conn.transaction(force_rollback=True):
            there.enqueue_graph(composed, conn=conn)
    async with await psycopg.AsyncConnection.connect(plain) as held:
        second = await there.aenqueue_graph(composed, conn=held)
    assert [graph.id for graph in await there.agraphs()] == [second.id, first.id]
    await there.aclose()
    there.close()


def test_middleware_sees_every_step(app: Mutirao, tasks: Any) -> None:
    """And is told of each handle."""
    one, _ = tasks
    seen: list[Any] = []

    @app.around_enqueue
    def watch(job: Any) -> Any:
        handle = yield job
        seen.append((job.task, handle.id))

    handle = app.enqueue_graph(chain(one.job(1), one.job(PREVIOUS)))
    assert seen == [("double", job.id) for job in handle.jobs]


def test_captured_and_inline(app: Mutirao, tasks: Any) -> None:
    """A graph is captured as a whole; inline runs step after step."""
    one, all_of = tasks
    composed = chain(group(one.job(1), one.job(2)), all_of.job(PREVIOUS))
    with capture(app) as jobs:
        app.enqueue_graph(composed)
        assert [job.state for job in jobs] == [JobState.READY] * 2 + [JobState.BLOCKED]
        drain(app)
        assert {job.state for job in jobs} == {JobState.SUCCEEDED}
    with inline(app):
        assert app.enqueue_graph(composed).jobs[-1].result() == 6


def test_inline_with_progress(app: Mutirao) -> None:
    """What is told is seen in the record."""

    @app.task
    def work(job: Job) -> None:
        job.progress(2, of=3, note="almost")

    with inline(app) as jobs:
        work.enqueue()
        assert (jobs[0].progress, jobs[0].progress_of, jobs[0].progress_note) == (2, 3, "almost")
