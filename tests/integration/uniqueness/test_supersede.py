"""What callers of tasks with a supersede rule write, and what they are told."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from mutirao import JobState, Mutirao, Redundancy, Retry, Supersede
from mutirao.errors import InvalidJob, InvalidTask
from mutirao.testing import drain, inline
from tests.support.waiting import until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/supersede.py"
)

RULE = Supersede.activities()


class Kind(enum.StrEnum):
    """What a follower is told of."""

    ADDED = "added"
    CHANGED = "changed"


def send(type: str, note: str) -> None:
    """What the tests enqueue."""


def test_what_is_told(app: Mutirao) -> None:
    """The handle says what became of the newer job, and of the older one, if anything did."""
    task = app.task(supersede=RULE)(send)
    call = task.using(key="bob")
    handles = [call.enqueue(type, "7") for type in ("Create", "Update", "Delete", "Like", "Move")]
    hows = [handle.how for handle in handles]
    assert hows == ["inserted", "merged", "superseded", "inserted", "follows"]
    assert all(handle.created for handle in handles)
    assert task.enqueue("Update", "7").how == "inserted"
    [merged] = [job for job in app.jobs() if job.id == handles[1].id]
    assert merged.args == {"type": "Create", "note": "7"}
    assert (merged.state, merged.error_type) == (JobState.CANCELLED, "Superseded")


async def test_asynchronously(app: Mutirao) -> None:
    """The same from a coroutine, and of several in one call."""
    task = app.task(supersede=RULE, scope="inbox")(send)
    call = task.using(key="bob")
    assert (await call.aenqueue("Create", "1")).how == "inserted"
    assert (await call.aenqueue("Update", "2")).how == "merged"
    await app.aenqueue_many([call.job("Update", "3"), call.job("Move", "4"), call.job("Like", "5")])
    live = [job.args for job in reversed(await app.ajobs()) if job.finished_at is None]
    assert live == [
        {"type": "Create", "note": "3"},
        {"type": "Move", "note": "4"},
        {"type": "Like", "note": "5"},
    ]
    await app.aclose()


def test_a_table_of_ones_own(app: Mutirao) -> None:
    """Kinds may be an enum's; a merge has the arguments as JSON has them."""
    rule = Supersede(
        "kind",
        {("added", "changed"): Redundancy.MERGE, ("changed", "changed"): "merge"},
        merge=lambda older, newer: {
            "kind": older["kind"],
            "fields": older["fields"] + newer["fields"],
        },
    )

    @app.task(supersede=rule)
    def tell(fields: list[str], *, kind: Kind) -> None: ...

    call = tell.using(key="7")
    call.enqueue(["name"], kind=Kind.CHANGED)
    call.enqueue(["size"], kind=Kind.CHANGED)
    [job] = app.jobs(state=JobState.READY)
    assert job.args == {"kind": "changed", "fields": ["name", "size"]}
    assert call.enqueue([], kind=Kind.ADDED).how == "follows"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Supersede("type", {}, None, 1), "drop_repeated is 1; give True or False"),  # type: ignore[arg-type]
        (lambda: Supersede("type", {("a", "b"): "drop"}), "'drop'; give one of keep, newer, merge"),  # type: ignore[dict-item]
        (lambda: Supersede("type", {"ab": "keep"}), r"for 'ab'; give \(older kind, newer kind\)"),  # type: ignore[dict-item]
        (lambda: Supersede(5, {}), "given 5 and .*; give the name of a parameter and a dict"),  # type: ignore[arg-type]
        (lambda: Supersede("type", [("a", "b")]), "give the name of a parameter and a dict"),  # type: ignore[arg-type]
        (lambda: Supersede("type", {}, "x"), "merge is 'x'; give a function"),  # type: ignore[arg-type]
    ],
)
def test_a_table_that_cannot_be(make: Any, message: str) -> None:
    """It is refused where it is written."""
    with pytest.raises(InvalidTask, match=message):
        make()


def test_what_is_no_rule(app: Mutirao) -> None:
    """A table alone does not say which argument is the kind."""
    with pytest.raises(InvalidTask, match=r"is {}; give Supersede\(by, rules\)"):
        app.task(supersede={})(send)  # type: ignore[call-overload]


@pytest.mark.parametrize("by", ["kind", "note"])
def test_a_kind_that_no_call_gives(app: Mutirao, by: str) -> None:
    """The rule must find the kind among the arguments of every call."""

    def task(type: str, note: str = "") -> None: ...

    with pytest.raises(InvalidTask, match=f"'{by}' is supersede's by.* parameters are type, note"):
        app.task(supersede=Supersede(by, {}))(task)


@pytest.mark.parametrize(
    "options", [{"on_conflict": "keep"}, {"unique_for": 60}, {"debounce_limit": 60}]
)
def test_no_two_rules(app: Mutirao, options: dict[str, Any]) -> None:
    """The rule says what a key means; so nothing else may, for the task or for a call."""
    with pytest.raises(InvalidJob, match="has a supersede rule, which says what a key means"):
        app.task(supersede=RULE, **options)
    task = app.task(supersede=RULE)(send)
    with pytest.raises(InvalidJob, match="leave on_conflict, unique_for and debounce_limit out"):
        task.using(key="bob", **options)
    assert app.jobs() == []


def test_what_is_repeated(app: Mutirao) -> None:
    """The handle is that of the job which did the same."""

    @app.task(supersede=Supersede.activities(drop_repeated=True), keep_result=True)
    def tell(type: str, note: str, text: str = "") -> str:
        return note

    first = tell.using(key="bob").enqueue("Update", "7")
    drain(app)
    again = tell.using(key="bob").enqueue(note="7", type="Update")
    assert (again.how, again.created, again.id) == ("repeated", False, first.id)
    assert again.result(timeout=9) == "7"
    assert app.enqueue_many([tell.using(key="bob").job("Update", "7")]) == [first.id]


def test_an_on_dead_handler_has_no_rule(app: Mutirao) -> None:
    """Its jobs are its own."""
    task = app.task(supersede=RULE)(send)
    task.on_dead(lambda dead: None)
    assert app.tasks["send.on_dead"].options.unique.supersede is None


def test_a_merged_job_is_not_the_one_that_was_asked(app: Mutirao) -> None:
    """So it is not found by what was."""
    task = app.task(supersede=RULE, findable=True)(send)
    call = task.using(key="bob")
    call.enqueue("Create", "1")
    assert call.enqueue("Update", "2").how == "merged"
    assert app.find(task, type="Update", note="2") == {}


def test_inline(app: Mutirao) -> None:
    """What a handler asks of its own key runs after it, in order."""
    ran: list[str] = []

    @app.task(supersede=RULE)
    def tell(type: str) -> None:
        ran.append(type)
        if type == "Create":
            for later in ("Move", "Update", "Update", "Like"):
                tell.using(key="k").enqueue(later)
        ran.append(f"/{type}")

    with inline(app):
        tell.using(key="k").enqueue("Create")
    ends = [(type, f"/{type}") for type in ("Create", "Move", "Update", "Like")]
    assert ran == [word for pair in ends for word in pair]


async def test_a_worker_keeps_the_order(app: Mutirao) -> None:
    """End to end: one after another though the worker could run many, and the first is retried."""
    ran: list[int] = []

    @app.task(supersede=RULE, retry=Retry.fixed(2, interval=0.01))
    async def tell(type: str, n: int) -> None:
        ran.append(n)
        if ran == [0]:
            raise OSError("try again")

    for n in range(8):
        await tell.using(key="k").aenqueue("Like", n)
    async with app.worker(concurrency=8):
        await until(lambda: len(ran) >= 9)
    assert ran == [0, *range(8)]
    await app.aclose()
