"""The filter language: what reads as what, what is refused where, and that nothing else happens."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import process_time

import pytest
from hypothesis import given, strategies as st

from mutirao.errors import InvalidFilter
from mutirao.model.filters.conditions import Aspect, Between, Exactly, Like, Term
from mutirao.model.filters.filter import MAX_TERMS, MAX_TEXT, MAX_VALUES, Filter, joined, parse
from mutirao.model.filters.qualifiers import MOST_NUMBER, MOST_STARS, QUALIFIERS
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import JobFilter

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
LONGEST_READING = 1.0  # seconds of the processor, for any text

texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=30
)
# What looks like the language, so that most of it is met.
pieces = st.lists(
    st.one_of(
        st.sampled_from([*QUALIFIERS, *JobState, *':-,".*\\ ><=', "..", "arg.", "2h", "7", "null"]),
        st.text(max_size=4),
    ),
    max_size=40,
).map("".join)


def terms(text: str) -> list[Term]:
    """Return the terms of a text, as the store takes them."""
    return list(parse(text).at(NOW).terms or ())


def one(aspect: Aspect, *values: object, **rest: object) -> list[Term]:
    """Return a list of one term."""
    return [Term(aspect, values, **rest)]  # type: ignore[arg-type]


READ: list[tuple[str, list[Term]]] = [
    ("", []),
    ("  \t ", []),
    ("state:dead", one(Aspect.STATE, Exactly("dead"))),
    ("state:dead,ready", one(Aspect.STATE, Exactly("dead"), Exactly("ready"))),
    ("-state:dead", one(Aspect.STATE, Exactly("dead"), negated=True)),
    ("task:send_*", one(Aspect.TASK, Like("send_*"))),
    ('task:"send_*"', one(Aspect.TASK, Exactly("send_*"))),
    ("task:a**b", one(Aspect.TASK, Like("a*b"))),
    ("queue:mail,video", one(Aspect.QUEUE, Exactly("mail"), Exactly("video"))),
    ('tenant:"5"', one(Aspect.TENANT, Exactly("5"))),
    ("tenant:5", one(Aspect.TENANT, Exactly("5"))),
    (r'key:"a \"b\" \\ c, d"', one(Aspect.KEY, Exactly(r'a "b" \ c, d'))),
    (r'key:"a\b"', one(Aspect.KEY, Exactly(r"a\b"))),
    ("key:a:b", one(Aspect.KEY, Exactly("a:b"))),
    ("arg.order_id:7", one(Aspect.ARG, Exactly(7), name="order_id")),
    ('arg.order.id:"7"', one(Aspect.ARG, Exactly("7"), name="order.id")),
    ('arg."a b:c":x', one(Aspect.ARG, Exactly("x"), name="a b:c")),
    ("arg.a:true,null,1.5", one(Aspect.ARG, Exactly(True), Exactly(None), Exactly(1.5), name="a")),
    ("error:Timeout", one(Aspect.ERROR, Exactly("Timeout"))),
    ("id:7..90", one(Aspect.ID, Between(7, 90))),
    ("id:7..7", one(Aspect.ID, Exactly(7))),
    ("id:7..,..3,9", one(Aspect.ID, Between(7, None), Between(None, 3), Exactly(9))),
    ("7 state:dead", [*one(Aspect.ID, Exactly(7)), *one(Aspect.STATE, Exactly("dead"))]),
    ("7..9,12", one(Aspect.ID, Between(7, 9), Exactly(12))),
    ("-7", one(Aspect.ID, Exactly(7), negated=True)),
    ("attempt:>3", one(Aspect.ATTEMPT, Between(4, None))),
    ("attempt:>=3", one(Aspect.ATTEMPT, Between(3, None))),
    ("attempt:<3", one(Aspect.ATTEMPT, Between(None, 2))),
    ("priority:<=-3", one(Aspect.PRIORITY, Between(None, -3))),
    ("older:2h", one(Aspect.ENQUEUED, Between(None, NOW - timedelta(hours=2)))),
    ("newer:2h", one(Aspect.ENQUEUED, Between(NOW - timedelta(hours=2), None))),
    (
        "after:2026-11-21T10:00:00-03:00",
        one(Aspect.ENQUEUED, Between(datetime(2026, 11, 21, 13, tzinfo=UTC), None)),
    ),
    (
        "before:2026-11-21",
        one(Aspect.ENQUEUED, Between(None, datetime(2026, 11, 21, tzinfo=UTC))),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), READ)
def test_what_is_read(text: str, expected: list[Term]) -> None:
    """Each form of the language, and what the store is asked for."""
    assert terms(text) == expected
    assert [type(v.value) for t in terms(text) for v in t.values if isinstance(v, Exactly)] == [
        type(v.value) for t in expected for v in t.values if isinstance(v, Exactly)
    ]


REFUSED = [
    ("state:deaf", 6, "did you mean 'dead'?"),
    ("state:failed", 6, "did you mean 'dead'?"),
    ("stat:dead", 0, "did you mean 'state'?"),
    ("queue:a State:dead", 8, "did you mean 'state'?"),
    ("queue:mail foo", 11, "task:foo"),
    ("state", 5, "state:dead"),
    ("state:", 6, "state:dead"),
    ("state:dead,", 11, "state:dead"),
    ("-", 1, "expected a qualifier"),
    ('"mail"', 0, "expected a qualifier"),
    ('key:"abc', 4, "do not end"),
    ('key:ab"c"', 6, "within a word"),
    ('key:"ab"c', 8, "within a word"),
    ("arg:7", 0, "arg.order_id:7"),
    ("arg.:7", 0, "arg.order_id:7"),
    ("arg.a:x*", 6, "no pattern fits an argument"),
    ("arg.a:1e999", 6, "too large"),
    ("id:x", 3, "7..90"),
    ("id:..", 3, "7..90"),
    ("id:9..7", 3, "the smaller one first"),
    (f"id:{MOST_NUMBER + 1}", 3, "whole number"),
    ("attempt:>", 8, "whole number"),
    ("older:x", 6, "no length of time"),
    ("older:2h,3h", 9, "takes one value"),
    ("-older:2h", 0, "newer"),
    ("before:2026", 7, "no moment"),
    ("before:2026-11-21T10:00", 7, "no time zone"),
    ("before:1969-01-01", 7, "before 1970"),
    ("task:" + "*a" * (MOST_STARS + 1), 5, "stars"),
    ("key:a\x00", 5, "NUL"),
    ("key:\ud800", 4, "half a character"),
    ("x" * (MAX_TEXT + 1), MAX_TEXT, "characters"),
    ("7 " * MAX_TERMS + "7", 2 * MAX_TERMS, "terms"),
    ("id:" + "7," * MAX_VALUES + "7", 3 + 2 * MAX_VALUES, "at most"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "position", "why"), REFUSED)
def test_what_is_refused(text: str, position: int, why: str) -> None:
    """The message says what was expected, and where."""
    with pytest.raises(InvalidFilter) as refused:
        parse(text)
    assert refused.value.position == position
    assert why in str(refused.value)
    assert len(str(refused.value)) < 600


@given(pieces)
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but InvalidFilter comes of a text; what is read is written, and read as the same."""
    began = process_time()
    try:
        found = parse(text)
    except InvalidFilter as refused:
        position = -1 if refused.position is None else refused.position
    else:
        position = 0
        assert str(parse(str(found))) == str(found)
        assert repr(parse(str(found)).at(NOW)) == repr(found.at(NOW))
    assert 0 <= position <= len(text)
    assert process_time() - began < LONGEST_READING


@given(st.sampled_from([each for each, q in QUALIFIERS.items() if q.example]), texts)
def test_any_name_can_be_said(qualifier: str, text: str) -> None:
    """Whatever a name is, it is found by its own text; of numbers, states and times by few."""
    try:
        found = parse("").having(qualifier, text)
    except InvalidFilter:
        assert QUALIFIERS[qualifier].read.__name__ != "_text"
        return
    [term] = found.at(NOW).terms or ()
    if QUALIFIERS[qualifier].read.__name__ == "_text":
        assert term.values == (Exactly(text),)
    assert str(parse(str(found))) == str(found)


@pytest.mark.parametrize(
    "text",
    ['"' * MAX_TEXT, "-" * MAX_TEXT, 'key:"' + "\\" * 1_990, "x" * MAX_TEXT, "id:" + "9" * 1_990,
     "arg." + "." * 1_900 + ":1", "task:" + "a*" * 900, "tag:" + "a," * 900, ":" * MAX_TEXT,
     "arg.a:" + "1" * 1_990, "arg.a:0." + "1" * 1_980, "older:" + "9" * 1_990,
     "\N{ARABIC-INDIC DIGIT THREE}" * 900, "[" * MAX_TEXT],
)  # fmt: skip
def test_the_longest_texts_are_soon_read(text: str) -> None:
    """However a text is made, it is read or refused at once."""
    began = process_time()
    with suppress(InvalidFilter):
        parse(text).at(NOW)
    assert process_time() - began < LONGEST_READING


def test_parts_are_put_together() -> None:
    """Terms are joined, replaced and left out; what is said twice stands there once."""
    found = parse("state:dead queue:mail arg.a:1 arg.a:true")
    assert str(found) == "state:dead queue:mail arg.a:1 arg.a:true"
    assert str(found.without("state")) == "queue:mail arg.a:1 arg.a:true"
    assert str(found.without("arg", "a")) == "state:dead queue:mail"
    assert str(parse("state:dead").having("state", "ready", "running")) == "state:ready,running"
    assert str(joined("state:dead queue:a", "queue:a tag:x")) == "state:dead queue:a tag:x"
    assert str(joined(None, parse("tag:x"))) == "tag:x"
    assert not parse("")
    assert not Filter().at(NOW).narrows
    assert parse("tag:x").at(NOW).narrows
    with pytest.raises(InvalidFilter, match="too long"):
        joined(f"key:{'a' * 1_500}", f"key:{'b' * 1_500}")


def test_the_states_that_match() -> None:
    """Those that options and terms both leave over."""
    assert parse("tag:x").at(NOW).any_state is None
    assert parse("state:dead,ready -state:ready").at(NOW).any_state == frozenset({JobState.DEAD})
    assert parse("-state:succeeded").at(NOW).any_state == frozenset(JobState) - {JobState.SUCCEEDED}
    both = JobFilter(state=JobState.DEAD, terms=parse("state:ready").at(NOW).terms)
    assert both.any_state == frozenset()


def test_which_filters_name_jobs() -> None:
    """Whoever names jobs by id means these, whatever else holds for commands by filter."""
    assert parse("id:7,8").at(NOW).named
    assert parse("7").at(NOW).named
    assert not parse("id:7..8").at(NOW).named
    assert not parse("-id:7").at(NOW).named
    assert JobFilter(ids=(7,)).named


def test_ages_are_written_in_their_unit() -> None:
    """The text holds what was meant, not the moment it stood for."""
    for said, written in [("7d", "1w"), ("90m", "90m"), ("1.5h", "90m"), ("90", "90s"),
                          ("0.25s", "0.25s"), ("0", "0s"), ("48h", "2d")]:  # fmt: skip
        assert str(parse(f"older:{said}")) == f"older:{written}"
    [term] = parse("older:300000000s").at(NOW).terms or ()
    assert term.values == (Between(None, NOW - timedelta(seconds=300_000_000)),)
    [term] = parse("older:9999999999s").at(NOW).terms or ()
    assert term.values == (Between(None, datetime(1970, 1, 1, tzinfo=UTC)),)
