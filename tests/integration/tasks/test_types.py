"""Arguments keep their types on the way through the database, and type checkers see them all."""

from __future__ import annotations

import enum
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, Field

from mutirao import Mutirao
from tests.integration.worker.kit import ended, outcomes, working

pytestmark = pytest.mark.repeats(
    "postgresql", decided="src/mutirao/testing/conformance/enqueueing.py"
)

ROOT = Path(__file__).parents[3]


class Colour(enum.Enum):
    """Of a shirt."""

    RED = "red"
    BLUE = "blue"


class Size(msgspec.Struct):
    """Of a shirt."""

    width: int
    length: int


@dataclass
class Line:
    """Of an order."""

    sku: UUID
    price: Decimal
    colour: Colour
    size: Size | None = None


class Model(BaseModel):
    """pydantic's, under another name in JSON."""

    n: int = Field(alias="number")


MOMENT = datetime(2026, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)
MODEL = Model(number=5)
VALUES: list[Any] = [
    Line(UUID(int=7), Decimal("19.9900"), Colour.BLUE, Size(3, 4)),
    [Line(UUID(int=7), Decimal("1E+3"), Colour.RED)],
    MOMENT,
    timedelta(minutes=5),
    date(2026, 3, 1),
    b"\x00\xff",
    (1, "a"),
    {"a": 1.5},
    {Colour.RED, Colour.BLUE},
    None,
    -(2**60),
    "é日🎈 \\u0000",
]


@pytest.mark.parametrize("kind", ["coroutine", "plain"])
async def test_values_come_back_as_they_were(app: Mutirao, kind: str) -> None:
    """Of every type that msgspec knows, and of pydantic's models."""
    seen: list[tuple[Any, ...]] = []

    def note(
        one: Line,
        lines: list[Line],
        at: datetime,
        wait: timedelta,
        day: date,
        raw: bytes,
        pair: tuple[int, str],
        prices: dict[str, float],
        colours: set[Colour],
        nothing: int | None,
        number: int,
        words: str,
        model: Model,
        choice: Literal["a", "b"] = "a",
    ) -> None:
        seen.append(
            (one, lines, at, wait, day, raw, pair, prices, colours, nothing, number, words, model)
        )

    async def anote(*args: Any, **kwargs: Any) -> None:
        note(*args, **kwargs)

    anote.__annotations__ = note.__annotations__
    anote.__wrapped__ = note  # type: ignore[attr-defined]
    task: Any = app.task(name="note")(note if kind == "plain" else anote)
    async with working(app):
        job = await ended(app, task.enqueue(*VALUES, MODEL).id)
    assert outcomes(job) == ["succeeded"]
    assert seen == [(*VALUES, MODEL)]
    assert [type(value) for value in seen[0]] == [type(value) for value in (*VALUES, MODEL)]


async def test_values_without_annotation(app: Mutirao) -> None:
    """Come back as JSON has them."""
    seen: list[Any] = []

    @app.task
    def note(*values):  # type: ignore[no-untyped-def]
        seen.extend(values)

    async with working(app):
        await ended(app, note.enqueue(1, 2.5, "a", None, True, (1, 2), {"a": [1]}, MOMENT).id)
    assert seen == [1, 2.5, "a", None, True, [1, 2], {"a": [1]}, "2026-03-01T12:30:00.123456Z"]


async def test_defaults_are_those_of_the_code_that_runs(app: Mutirao) -> None:
    """They are not stored: a job that waits through a deployment gets the new one."""
    seen: list[int] = []
    first = Mutirao(app.url)

    def before(width: int = 800) -> None:
        raise AssertionError

    def after(width: int = 1200) -> None:
        seen.append(width)

    id = first.task(name="resize")(before).enqueue().id
    app.task(name="resize")(after)
    async with working(app):
        await ended(app, id)
    await first.aclose()
    assert seen == [1200]


GOOD = """
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from mutirao import PROVIDED, DeadJob, Job, Mutirao, NewJob, OutcomeKind, Retry, Task
from mutirao.tasks.middleware import AsyncAttemptSteps, AttemptSteps, EnqueueSteps

app = Mutirao()

@app.task
async def send(order_id: int, note: str = "") -> None: ...

@app.task(queue="mail", retry=Retry.fixed(3), timeout=timedelta(seconds=5))
def resize(path: str, *, width: int = 800) -> str:
    return path

@app.task
async def charge(job: Job, order_id: int) -> None:
    async with job.transaction() as session:
        await session.commit()
    async with job.transaction(session=False) as connection:
        await connection.exec_driver_sql("SELECT 1")

@app.task(max_attempts=1)
def plainly(job: Job, order_id: int) -> None:
    with job.transaction() as session:
        session.commit()

@app.task(keep_result=True)
async def measured() -> int:
    return 7

@send.on_dead
async def tell(dead: DeadJob) -> None: ...

@app.around_enqueue
def trace(job: NewJob) -> EnqueueSteps:
    handle = yield replace(job, traceparent=None)
    number: int = handle.id

@app.around_attempt
def measure(job: Job) -> AttemptSteps:
    outcome = yield
    kind: OutcomeKind = outcome.kind

@app.around_attempt
async def ameasure(job: Job) -> AsyncAttemptSteps:
    outcome = yield
    kind: OutcomeKind = outcome.kind

@app.around_handler
def hook(job: Job) -> Iterator[None]:
    yield

@app.around_handler
async def ahook(job: Job) -> AsyncIterator[None]:
    yield

class Session: ...

@app.provide
def open_session() -> Iterator[Session]:
    yield Session()

@app.provide
async def aopen_session(job: Job) -> Session:
    return Session()

@app.task
def paid(order_id: int, *, session: Session = PROVIDED) -> None: ...

async def good() -> None:
    paid.enqueue(7)
    paid(7, session=Session())
    send.enqueue(7)
    send.enqueue(order_id=7, note="x")
    resize.enqueue("a.png", width=80)
    charge.enqueue(7)
    plainly.enqueue(order_id=7)
    send.using(priority=3, delay=5.0, run_at=datetime.now()).enqueue(7)
    await send.using(conn=object()).aenqueue(order_id=7)
    await charge.aenqueue(7)
    job: NewJob = charge.using(key="k").job(7)
    app.enqueue_many([job, resize.job("a.png")])
    path: str = resize("a.png")
    await send(7)
    told: str = resize.enqueue("a.png").result(timeout=5)
    told = await resize.using(priority=3).enqueue("a.png").aresult()
    length: int = await (await measured.aenqueue()).aresult()
    app.jobs(state="dead", limit=5)
    app.cancel(7, 8)
    app.worker(queues=["mail"], concurrency=4)
"""
BAD = {
    'size: int = resize.enqueue("a.png").result()': "assignment",
    "name: str = measured.enqueue().result()": "assignment",
    'app.worker(concurrency="4")': "arg-type",
    "app.worker(concurency=4)": "call-arg",
    'app.jobs(stat="dead")': "call-arg",
    "app.cancel(7, queue=7)": "arg-type",
    'send.enqueue(order_id="x")': "arg-type",
    "send.enqueue()": "call-arg",
    "send.enqueue(7, 8)": "arg-type",
    'send.enqueue(7, colour="red")': "call-arg",
    'resize.enqueue("a.png", 80)': "call-arg|misc",
    'resize.enqueue("a.png", width="wide")': "arg-type",
    'charge.enqueue(order_id="x")': "arg-type",
    "charge.enqueue(job, 7)": "arg-type|call-arg",
    'plainly.enqueue("x")': "arg-type",
    'send.using(priority=3).enqueue("x")': "arg-type",
    "charge.using(priority=3).enqueue()": "call-arg",
    'send.using(priority="high")': "arg-type",
    "send.using(colour=3)": "call-arg",
    'send.using().job("x")': "arg-type",
    'app.enqueue_many([send.enqueue("7")])': "arg-type|list-item",
    'number: int = resize("a.png")': "assignment",
    "resize(7)": "arg-type",
    "app.around_enqueue(measure)": "type-var",
    "app.around_attempt(trace)": "type-var",
    "app.around_handler(tell)": "type-var",
    "app.task(queue=7)": "call-overload|arg-type",
    "app.task(retry=3)": "call-overload|arg-type",
}


def test_mypy_sees_wrong_arguments(tmp_path: Path) -> None:
    """Each where it is written, with a `Job` injected or not, with options or not; no others."""
    lines = [*GOOD.splitlines(), "", "def bad(job: Job) -> None:"]
    expected: dict[int, str] = {}
    for call, codes in BAD.items():
        lines.append(f"    {call}")
        expected[len(lines)] = codes
    program = tmp_path / "shop.py"
    program.write_text("\n".join(lines) + "\n")
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary"),
            *("--config-file", os.devnull, "--hide-error-context", str(program)),
        ],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src"), "MYPY_CACHE_DIR": str(cache())},
        capture_output=True,
        text=True,
        timeout=110,
    )
    found: dict[int, set[str]] = {}
    for line, code in re.findall(
        rf"^{program.name}:(\d+): error: .*\[([\w-]+)\]$", checked.stdout, re.MULTILINE
    ):
        found.setdefault(int(line), set()).add(code)
    told = {lines[number - 1].strip(): found.get(number, set()) for number in expected}
    missed = {call: codes for call, codes in told.items() if not codes & set(BAD[call].split("|"))}
    assert missed == {}, checked.stdout + checked.stderr
    assert set(found) == set(expected), checked.stdout


def cache() -> Path:
    """Return where mypy keeps what it knows of the libraries: reading them anew takes a minute."""
    return ROOT / ".mypy_cache" / "tests"
