"""Whatever leaves a handler ends at worst its own attempt, and innocent jobs go on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from mutirao import Cancel, Dead, DeadJob, Job, Limit, Mutirao, Retry, Snooze
from mutirao.errors import InvalidJob, InvalidProgress
from mutirao.model.jobs.job import JobState
from tests.integration.worker.kit import LIVE, ended, working

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance")

# All of Unicode, lone surrogates, NUL and what no terminal shows among it.
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
TEXTS = st.one_of(ANY_TEXT, st.sampled_from(["\x00", "\ud800", "caf\udce9.txt", "x" * 3_000_000]))
NUMBERS: st.SearchStrategy[Any] = st.one_of(
    st.floats(), st.integers(), st.sampled_from([10**400, True, "1", None, [], 1e308, -0.0])
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), ANY_TEXT),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(ANY_TEXT, inner)),
    max_leaves=20,
)
few = settings(
    max_examples=2,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def deep(levels: int) -> Any:
    """Return lists within lists."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


async def among_innocents(app: Mutirao, what: list[Any], do: Callable[[Job, Any], Any]) -> None:
    """Run a job for each thing to do, and innocent ones between them, in one worker."""
    name = f"does {id(what)}"

    @app.task(name=name, retry=Retry.never(), keep_result=True)
    async def does(job: Job, n: int) -> Any:
        return do(job, what[n])

    @app.task(name=f"{name} not")
    async def innocent() -> None: ...

    does.on_dead(_mourn)
    async with working(app, concurrency=5) as worker:
        ids = []
        for n in range(len(what)):
            ids += [(await does.aenqueue(n)).id, (await innocent.aenqueue()).id]
        jobs = [await ended(app, id) for id in ids]
        assert worker.health().alive
        assert len(await app.store.workers()) == 1
    assert {str(job.state) for job in jobs[1::2]} == {"succeeded"}
    assert {a.outcome for job in jobs for a in job.attempts} <= {"succeeded", "dead", "cancelled"}


async def _mourn(dead: DeadJob) -> None: ...


@few
@given(told=st.lists(st.tuples(NUMBERS, NUMBERS, st.one_of(TEXTS, NUMBERS)), min_size=12))
async def test_progress(app: Mutirao, told: list[Any]) -> None:
    """What is no finite number, or no text, is refused where it is said; the rest is written."""

    def tell(job: Job, what: Any) -> None:
        done, of, note = what
        try:
            job.progress(done, of=of, note=note)
        except InvalidProgress as refused:
            assert "give" in str(refused)  # noqa: PT017 (what is told, if anything)

    fixed = [(1, 1, "caf\udce9.txt"), (float("nan"), 3, None), (1, float("inf"), "x\x00y")]
    await among_innocents(app, fixed + told, tell)


@few
@given(texts=st.lists(TEXTS, min_size=12, max_size=20))
async def test_errors(app: Mutirao, texts: list[str]) -> None:
    """Their types, their texts, and what ends a job by word."""

    def fail(job: Job, text: str) -> None:
        kinds = [
            ValueError,
            Dead,
            Cancel,
            type("A\ud800" + text[:5].replace("\x00", ""), (OSError,), {}),
        ]
        raise kinds[job.id % len(kinds)](text)

    await among_innocents(app, texts, fail)


class Contrary(Exception):
    """Says nothing of itself."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


async def test_errors_that_cannot_be_told(app: Mutirao) -> None:
    """One that raises when it is asked, one with a thousand causes, one that is none of ours."""

    def fail(job: Job, which: int) -> None:
        error: BaseException = Contrary()
        if which == 1:
            for _ in range(3_000):
                following = ValueError("the next one")
                following.__cause__ = error
                error = following
        if which == 2:
            error = SystemExit(3)
        if which == 3:
            error = RecursionError()
        raise error

    await among_innocents(app, [0, 1, 2, 3], fail)


@few
@given(values=st.lists(JSON, min_size=12, max_size=20))
async def test_results(app: Mutirao, values: list[Any]) -> None:
    """Kept, or refused as an error of that attempt."""
    more = [deep(50), deep(100_000), "x" * 3_000_000, object(), {1: 2}, {"a": float("nan")}]
    await among_innocents(app, [*values, *more], lambda job, value: value)


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1)
NAMES = st.one_of(ANY_TEXT, st.just("x" * 300), WORDS, WORDS)  # most of them can be stored
CALLS = st.fixed_dictionaries(
    {"value": st.one_of(JSON, NAMES)},
    optional={
        "key": NAMES,
        "tags": st.lists(NAMES, max_size=3),
        "metadata": st.dictionaries(NAMES, st.one_of(JSON, NAMES), max_size=3),
        "queue": NAMES,
        "priority": st.integers(),
        "delay": st.floats(max_value=0.1),
        "timeout": st.one_of(st.floats(), st.just(10**400)),
        "max_attempts": st.integers(),
    },
)


NEW_YEAR = datetime.fromisoformat("2026-01-01")
PAST = st.datetimes(max_value=NEW_YEAR, timezones=st.sampled_from([None, UTC, UTC]))
KEYS = st.fixed_dictionaries(
    {"value": NAMES},
    optional={
        "key": st.one_of(st.just("k"), NAMES),
        "scope": NAMES,
        "unique_for": st.one_of(st.floats(), st.just("forever"), st.just(10**400)),
        "on_conflict": st.sampled_from(["keep", "replace", "rerun"]),
        "version": st.one_of(st.floats(), st.integers(), PAST),
        "run_at": PAST,
    },
)


@few
@given(calls=st.lists(CALLS, min_size=20, max_size=24))
async def test_what_is_enqueued(app: Mutirao, calls: list[dict[str, Any]]) -> None:
    """Refused where it is said, or the job ends: in limits and turns by any value, too."""
    await enqueued_among_innocents(app, calls)


@few
@given(calls=st.lists(KEYS, min_size=20, max_size=40))
async def test_keys_and_times(app: Mutirao, calls: list[dict[str, Any]]) -> None:
    """Any key, scope, window, version and time, of which no two may be said together at times."""
    await enqueued_among_innocents(app, calls)


async def enqueued_among_innocents(app: Mutirao, calls: list[dict[str, Any]]) -> None:
    """Enqueue each call that is not refused, and innocent jobs between them; all of them end."""
    name, ids, refused = f"takes {id(calls)}", [], 0

    @app.task(name=f"{name} one at a time", limit=Limit(1, by="value"))
    async def limited(value: Any) -> None: ...

    @app.task(name=f"{name} in turn", fair_by="value")
    async def fair(value: Any) -> None: ...

    @app.task(name=f"{name} nothing")
    async def innocent() -> None: ...

    async with working(app, concurrency=5) as worker:
        for n, call in enumerate(calls):
            task = (limited, fair)[n % 2]
            options = {option: given for option, given in call.items() if option != "value"}
            try:
                ids.append((await task.using(**options).aenqueue(call["value"])).id)
            except InvalidJob:
                refused += 1
            ids.append((await innocent.aenqueue()).id)
        for each in ids:
            assert (await ended(app, each)).state in set(JobState) - LIVE
        assert worker.health().alive
        assert await app.ajobs()
    assert refused < len(calls)


class Hasty(Snooze):
    """A signal that somebody has tampered with."""

    def __init__(self, after: Any) -> None:
        super().__init__(1)
        self.after = after


@pytest.mark.parametrize("after", ["soon", float("nan"), float("inf"), 1e300, -1e300, None, [1]])
async def test_signals_that_say_nonsense(app: Mutirao, after: Any) -> None:
    """The attempt that said so fails, and the job ends by that in the end."""

    @app.task(retry=Retry.never())
    async def step(job: Job) -> None:
        if job.run < 3:
            raise Hasty(after)

    @app.task
    async def innocent() -> None: ...

    async with working(app, concurrency=2) as worker:
        id = (await step.aenqueue()).id
        for _ in range(3):
            assert str((await ended(app, (await innocent.aenqueue()).id)).state) == "succeeded"
        assert str((await ended(app, id)).state) in ("dead", "succeeded")
        assert worker.health().alive
