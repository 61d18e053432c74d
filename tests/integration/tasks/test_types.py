"""Arguments keep their types through the database; `typed.py` has what mypy says of them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, Field

from mutirao import Mutirao
from tests.integration.worker.kit import ended, outcomes, working

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/enqueueing.py"
)


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
