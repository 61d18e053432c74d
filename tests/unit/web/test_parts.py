"""What pages are made of: harmless texts, bounded fields, charts, and readings that are shared."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from mutirao.web.drawing.charts import HEIGHT, WIDTH, Point, chart, spans
from mutirao.web.forms import Fields, Misread, id_in
from mutirao.web.live import Readings
from mutirao.web.showing import block, cell, harmless

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


@given(st.text(st.characters()))
def test_nothing_acts_in_a_text(text: str) -> None:
    """Whatever it is, it can be sent, and has no sign that turns or hides."""
    shown = harmless(text)
    shown.encode()
    assert not any(each in shown for each in "\u202e\u2066\u200b\x00\x1b\ufeff\u2028\x85\ud800")


def test_signs_that_act_are_escapes() -> None:
    """They are seen; line feeds and tabs stay, and so do letters and what joins emoji."""
    assert harmless("a\u202eb\x1b[2J\n\tc é 🧑‍🤝‍🧑") == "a\\u202eb\\x1b[2J\n\tc é 🧑‍🤝‍🧑"
    assert harmless(None) == ""
    assert harmless(7) == 7


def test_values_are_short_in_tables() -> None:
    """One line, cut; a text of a megabyte is not looked at as a whole."""
    assert cell("a\n  b") == "a b"
    assert cell({"é": 1}) == '{"é": 1}'
    assert cell("x" * 1_000_000) == "x" * 160 + "…"
    assert cell(" " * 1_000_000 + "x").endswith("…")
    assert block("abc", 2) == ("ab", 1)


@given(st.text(max_size=40))
def test_an_id_is_a_number_or_refused(text: str) -> None:
    """Nothing else comes of any text."""
    with suppress(Misread):
        assert 0 < id_in(text) < 2**63


def test_fields_are_bounded() -> None:
    """Too long, with a NUL, with half a character: refused; missing: empty."""
    fields = Fields({"a": [" x "], "long": ["x" * 3_000], "nul": ["\x00"], "half": ["\ud800"]})
    assert (fields.text("a"), fields.text("none")) == ("x", "")
    for name in ("long", "nul", "half"):
        with pytest.raises(Misread):
            fields.text(name)
    assert fields.one_of("none", "first", "second") == "first"
    with pytest.raises(Misread):
        fields.one_of("a", "first")


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=70))
def test_columns_stay_within_the_chart(counts: list[tuple[int, int]]) -> None:
    """Each is as high as its number, within the chart, and what is not nothing is seen."""
    made = chart([Point(NOON, good, bad) for good, bad in counts])
    for each, (good, bad) in zip(made.columns, counts, strict=True):
        assert 0 <= each.x <= each.x + each.width <= WIDTH + 0.1
        assert -0.01 <= each.bad_y <= each.good_y <= HEIGHT
        assert each.good + each.bad <= HEIGHT + 0.02
        assert bool(each.bad) == bool(bad)
        assert each.good > 0 or not good or bad > 50 * good
    assert made.top >= max((good + bad for good, bad in counts), default=0)


def test_the_top_is_easy_to_read() -> None:
    """One or two digits that are not zero."""
    tops = [chart([Point(NOON, number, 0)]).top for number in (0, 3, 7, 11, 99, 1_001)]
    assert tops == [4, 4, 8, 20, 100, 2_000]


def test_attempts_on_a_line() -> None:
    """They begin where they began; the shortest is still to be seen."""
    second = timedelta(seconds=1)
    found = spans(
        [(NOON, NOON + second), (NOON + 9 * second, NOON + 9 * second)], NOON, NOON + 10 * second
    )
    assert [each.start for each in found] == [0.0, 90.0]
    assert found[0].length == 10.0
    assert 0.5 < found[1].length < 1.0
    assert (
        spans([(NOON, NOON)], NOON, NOON)[0].start + spans([(NOON, NOON)], NOON, NOON)[0].length
        <= 100
    )


async def test_readings_are_shared() -> None:
    """Many ask at once, one reads; within its time it is not read again, and it tells its age."""
    now, asked, may_end = [100.0], [0], asyncio.Event()
    readings = Readings(lambda: now[0])

    async def read() -> int:
        asked[0] += 1
        await may_end.wait()
        return asked[0]

    many = [asyncio.ensure_future(readings.get("a", read, 2.0)) for _ in range(50)]
    await asyncio.sleep(0)
    many[0].cancel()
    may_end.set()
    assert set(await asyncio.gather(*many[1:])) == {1}
    now[0] += 1.5
    assert (await readings.get("a", read, 2.0), readings.age("a")) == (1, 1.5)
    now[0] += 1.0
    assert await readings.get("a", read, 2.0) == 2


async def test_a_reading_from_before_a_change_is_not_kept() -> None:
    """Whoever asks after a command sees what it did."""
    readings, may_end, value = Readings(lambda: 0.0), asyncio.Event(), ["before"]
    began = asyncio.Event()

    async def read() -> str:
        found = value[0]
        began.set()
        await may_end.wait()
        return found

    early = asyncio.ensure_future(readings.get("a", read))
    await began.wait()
    value[0] = "after"
    readings.forget()
    may_end.set()
    assert await readings.get("a", read) == "after"
    assert await early == "before"
    assert await readings.get("a", read) == "after"


async def test_an_error_is_everybodys_and_is_not_kept() -> None:
    """The next one tries again."""
    readings, fails = Readings(lambda: 0.0), [True]

    async def read() -> int:
        await asyncio.sleep(0)
        if fails[0]:
            raise OSError("away")
        return 7

    both = await asyncio.gather(
        *(readings.get("a", read) for _ in range(2)), return_exceptions=True
    )
    assert [type(each) for each in both] == [OSError, OSError]
    fails[0] = False
    assert await readings.get("a", read) == 7
