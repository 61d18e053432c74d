"""What must not be written is refused at the caller, saying what to do, before anything is."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from mutirao import Mutirao, NewJob, Task, chain
from mutirao.errors import (
    InvalidArguments,
    InvalidJob,
    MutiraoError,
    SchemaMissing,
    UnsupportedConnection,
)

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/enqueueing.py"
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def contains_itself() -> list[Any]:
    """Return a list that has no end."""
    endless: list[Any] = []
    endless.append(endless)
    return endless


# Options of a call, and words of the error: what was found, and what to give instead.
OPTIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "queue empty": ({"queue": ""}, ["queue name has 0 characters", "give 1 to 100"]),
    "queue long": ({"queue": "q" * 101}, ["queue name has 101 characters", "give 1 to 100", "'qq"]),
    "queue no text": ({"queue": 7}, ["queue name is 7", "give text"]),
    "queue NUL": ({"queue": "a\x00b"}, ["queue name 'a\\x00b' has a NUL byte", "leave it out"]),
    "queue surrogate": ({"queue": "a\ud800"}, ["queue name", "half a character"]),
    "priority low": ({"priority": -32769}, ["priority is -32769", "-32768 to 32767"]),
    "priority high": ({"priority": 32768}, ["priority is 32768", "-32768 to 32767"]),
    "priority text": ({"priority": "1"}, ["priority is '1'", "whole number"]),
    "priority fraction": ({"priority": 1.0}, ["priority is 1.0", "whole number"]),
    "priority bool": ({"priority": True}, ["priority is True", "whole number"]),
    "naive": ({"run_at": NOW.replace(tzinfo=None)}, ["naive datetime", "one with a time zone"]),
    "run_at date": ({"run_at": date(2026, 3, 1)}, ["run_at is", "aware datetime"]),
    "run_at text": ({"run_at": "2026-03-01T00:00Z"}, ["run_at is '2026", "aware datetime"]),
    "run_at last": ({"run_at": datetime.max.replace(tzinfo=UTC)}, ["9999", "year from 2 to 9998"]),
    "run_at first": ({"run_at": datetime.min.replace(tzinfo=UTC)}, ["0001", "year from 2 to 9998"]),
    "delay negative": ({"delay": -0.5}, ["delay is -0.5", "give 0 seconds or more"]),
    "delay back": ({"delay": timedelta(seconds=-5)}, ["delay is -5.0", "give 0 seconds or more"]),
    "delay huge": ({"delay": 1e12}, ["delay is 1000000000000.0", "at most 10000000000"]),
    "delay nan": ({"delay": math.nan}, ["delay is nan", "give 0 seconds or more"]),
    "delay inf": ({"delay": math.inf}, ["delay is inf"]),
    "delay text": ({"delay": "5"}, ["delay is '5'", "seconds as a number, or a timedelta"]),
    "both": ({"delay": 1, "run_at": NOW}, ["both run_at and delay", "give one of them"]),
    "expires zero": ({"expires": 0}, ["expires is 0", "give more than 0 seconds, or a moment"]),
    "expires nan": ({"expires": math.nan}, ["expires is nan", "give more than 0 seconds"]),
    "expires text": ({"expires": "1h"}, ["expires is '1h'", "seconds as a number, or a timedelta"]),
    "expires naive": ({"expires": NOW.replace(tzinfo=None)}, ["naive datetime", "a time zone"]),
    "expires year": ({"expires": datetime.max.replace(tzinfo=UTC)}, ["9999", "with a time zone"]),
    "expires said": ({"metadata": {"@expires": 5}}, ["'@expires' in the metadata is 5", "give a"]),
    "due too late": ({"expires": 60, "delay": 60}, ["due in 60 seconds, and expires", "shorter"]),
    "due after it": (
        {"expires": NOW, "run_at": NOW + timedelta(hours=1)},
        ["due at 2026-03-01 01:00:00+00:00, and expires before that", "an earlier run_at"],
    ),
    "attempts zero": ({"max_attempts": 0}, ["max_attempts is 0", "give 1 (never retry) or more"]),
    "attempts huge": ({"max_attempts": 2**31}, ["max_attempts is 2147483648"]),
    "attempts fraction": ({"max_attempts": 2.5}, ["max_attempts is 2.5"]),
    "attempts text": ({"max_attempts": "3"}, ["max_attempts is '3'"]),
    "timeout zero": ({"timeout": 0}, ["timeout is 0", "give more than 0 seconds, or None"]),
    "timeout inf": ({"timeout": math.inf}, ["timeout is inf"]),
    "timeout text": ({"timeout": "30s"}, ["timeout is '30s'", "seconds as a number"]),
    "key empty": ({"key": ""}, ["key has 0 characters", "give 1 to 200"]),
    "key long": ({"key": "k" * 201}, ["key has 201 characters", "give 1 to 200"]),
    "key NUL": ({"key": "\x00"}, ["key", "NUL byte"]),
    "tags text": ({"tags": "shop"}, ["tags are 'shop'", "give a list, such as ['shop']"]),
    "tag number": ({"tags": [1]}, ["tag is 1", "give text"]),
    "tag empty": ({"tags": [""]}, ["tag has 0 characters"]),
    "tag NUL": ({"tags": ["a\x00"]}, ["tag", "NUL byte"]),
    "metadata list": ({"metadata": [1]}, ["metadata is [1]", "give a dict"]),
    "metadata object": ({"metadata": {"a": object()}}, ["metadata", "object has no form in JSON"]),
    "metadata NUL": ({"metadata": {"a": "\x00"}}, ["metadata", "NUL character", "leave it out"]),
    "metadata large": ({"metadata": {"a": "x" * 2_000}}, ["metadata", "at most 1,000"]),
    "metadata endless": ({"metadata": {"a": contains_itself()}}, ["metadata cannot be written"]),
    "metadata surrogate": ({"metadata": {"a": "\ud800"}}, ["metadata cannot be written"]),
    "traceparent": ({"traceparent": "00-abc"}, ["traceparent is '00-abc'", "00-4bf92f"]),
    "traceparent number": ({"traceparent": 7}, ["traceparent is 7"]),
}  # fmt: skip

SIGNATURE = "send(order_id: 'int', note: 'str' = '', *, extra: 'Any' = None)"
ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any], list[str]]] = {
    "missing": ((), {}, ["order_id", SIGNATURE]),
    "another type": ((), {"order_id": "x"}, ["Expected `int`, got `str`", "order_id", SIGNATURE]),
    "positional": (("x",), {}, ["Expected `int`, got `str`", SIGNATURE]),
    "unknown": ((7,), {"colour": "red"}, ["colour", SIGNATURE]),
    "too many": ((7, "", "more"), {}, ["too many positional arguments", SIGNATURE]),
    "twice": ((7,), {"order_id": 8}, ["multiple values", "order_id", SIGNATURE]),
    "an object": ((7,), {"extra": object()}, ["object has no form in JSON", "pass plain data"]),
    "a function": ((7,), {"extra": len}, ["has no form in JSON", "pass plain data"]),
    "deep inside": ((7,), {"extra": [{"a": object()}]}, ["object has no form in JSON"]),
    "endless": ((7,), {"extra": contains_itself()}, ["cannot take these arguments"]),
    "NUL": ((7, "a\x00b"), {}, ["arguments of task 'send'", "NUL character", "leave it out"]),
    "a deep NUL": ((7,), {"extra": {"\x00": 1}}, ["NUL character"]),
    "surrogate": ((7, "\ud800"), {}, ["cannot take these arguments"]),
    "too large": ((7, "x" * 1_000), {}, ["bytes of JSON", "at most 1,000", "pass its key"]),
    "too large in UTF-8": ((7, "é" * 600), {}, ["bytes of JSON", "at most 1,000"]),
    "not a number": ((math.nan,), {}, ["it has NaN or an infinite number", SIGNATURE]),
    "a deep infinity": ((7,), {"extra": [{"a": math.inf}, None]}, ["give a finite number"]),
}


@pytest.fixture
def small(url: str) -> Mutirao:
    """An application that allows payloads of 1,000 bytes."""
    return Mutirao(url, max_payload=1_000)


def sending(app: Mutirao) -> Task[..., Any]:
    """Return a task to call wrongly."""

    async def send(order_id: int, note: str = "", *, extra: Any = None) -> None:
        raise AssertionError

    return app.task(send)


@pytest.fixture
async def send(small: Mutirao) -> AsyncIterator[Task[..., Any]]:
    """A task to call wrongly, on each database."""
    yield sending(small)
    await small.aclose()
    small.close()


@pytest.fixture
def small_file(lite_url: str) -> Iterator[Mutirao]:
    """The same application for what is refused before any database is asked: on a file."""
    app = Mutirao(lite_url, max_payload=1_000)
    yield app
    app.close()


def written(url: str) -> int:
    """Return how many jobs there are, live ones counted again."""
    engine = create_engine(url)
    with engine.connect() as connection:
        counted = [
            connection.scalar(text("SELECT count(*) FROM mutirao_job")),
            connection.scalar(text("SELECT count(*) FROM mutirao_live")),
        ]
    engine.dispose()
    return sum(int(count or 0) for count in counted)


async def refusals(app: Mutirao, call: Call) -> AsyncIterator[MutiraoError]:
    """Make a call in every way there is; yield the errors. Transactions are committed."""
    with pytest.raises(InvalidJob) as plain:
        call.on().enqueue(*call.args, **call.kwargs)
    yield plain.value
    with pytest.raises(InvalidJob) as asynchronous:
        await call.on().aenqueue(*call.args, **call.kwargs)
    yield asynchronous.value
    with pytest.raises(InvalidJob) as many:
        app.enqueue_many(call.among_good_ones())
    yield many.value
    with pytest.raises(InvalidJob) as amany:
        await app.aenqueue_many(call.among_good_ones())
    yield amany.value
    engine = create_engine(app.url)
    with engine.begin() as connection, pytest.raises(InvalidJob) as joined:
        call.on(conn=connection).enqueue(*call.args, **call.kwargs)
    engine.dispose()
    yield joined.value
    url = str(app.url).replace("sqlite:", "sqlite+aiosqlite:")
    aengine = create_async_engine(url)
    async with AsyncSession(aengine) as session:
        with pytest.raises(InvalidJob) as ajoined:
            await call.on(conn=session).aenqueue(*call.args, **call.kwargs)
        await session.commit()
    await aengine.dispose()
    yield ajoined.value


@dataclass
class Call:
    """A call with something wrong in it."""

    task: Task[..., Any]
    options: dict[str, Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def on(self, **more: Any) -> Any:
        """Return the task with the options of this call."""
        return self.task.using(**self.options, **more)

    def among_good_ones(self) -> Iterator[NewJob]:
        """Yield this call's job after another one, which must not be written either."""
        yield self.task.job(1)
        yield self.on().job(*self.args, **self.kwargs)


@pytest.mark.parametrize("name", OPTIONS)
def test_options(small_file: Mutirao, name: str) -> None:
    """Every option."""
    options, words = OPTIONS[name]
    with pytest.raises(InvalidJob) as refused:
        sending(small_file).using(**options).enqueue(7)
    assert isinstance(refused.value, ValueError)
    assert [word for word in words if word not in str(refused.value)] == []
    assert written(str(small_file.url)) == 0


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(small_file: Mutirao, name: str) -> None:
    """Held against the signature, its types and what JSON and the databases can hold."""
    args, kwargs, words = ARGUMENTS[name]
    with pytest.raises(InvalidJob) as refused:
        sending(small_file).enqueue(*args, **kwargs)
    assert [word for word in words if word not in str(refused.value)] == []
    assert written(str(small_file.url)) == 0


@pytest.mark.parametrize(
    ("options", "args", "word"),
    [
        ({"priority": 32768}, (7,), "priority is 32768"),
        ({"metadata": {"a": "x" * 2_000}}, (7,), "at most 1,000"),
        ({}, ("x",), "Expected `int`, got `str`"),
        ({}, (7, "x" * 1_000), "at most 1,000"),
    ],
)
async def test_each_way_to_enqueue(
    small: Mutirao, send: Task[..., Any], options: dict[str, Any], args: tuple[Any, ...], word: str
) -> None:
    """An option, labels, an argument, a payload: none is written, nor what comes with it."""
    async for error in refusals(small, Call(send, options, args, {})):
        assert isinstance(error, ValueError)
        assert word in str(error)
    assert written(str(small.url)) == 0


async def test_what_does_not_fit_the_signature_is_a_type_error(pg_app: Mutirao) -> None:
    """As it would be for a plain call."""

    @pg_app.task
    async def send(order_id: int) -> None:
        pass

    wrong: list[dict[str, Any]] = [{"x": "x"}, {"self": 1}]
    for given in wrong:
        for enqueue in (send.enqueue, send.using(priority=1).enqueue, send.job):
            with pytest.raises(TypeError) as refused:
                enqueue(**given)
            assert type(refused.value) is InvalidArguments


@pytest.mark.parametrize(
    "options",
    [
        {"queue": "q" * 100},
        {"queue": "é日🎈 with spaces, commas"},
        {"priority": -32768},
        {"priority": 32767},
        {"delay": 0},
        {"expires": 0.5},
        {"expires": timedelta(days=3_000), "delay": timedelta(days=2_999)},
        {"expires": NOW, "run_at": NOW},
        {"delay": timedelta(days=3_000)},
        {"run_at": datetime(2, 1, 2, tzinfo=UTC)},
        {"run_at": datetime(9998, 12, 31, tzinfo=timezone(timedelta(hours=-14)))},
        {"max_attempts": 1},
        {"max_attempts": 2**31 - 1},
        {"timeout": 0.001},
        {"timeout": timedelta(days=1)},
        {"key": "k" * 200},
        {"tags": ["t" * 100, "\\u0000"]},
        {"metadata": {"a": {"b": [1, 2.5, None, True, "\\u0000"]}}},
        {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
    ],
)
async def test_what_just_fits(app: Mutirao, options: dict[str, Any]) -> None:
    """Is written as it was given, and read back so."""

    @app.task
    async def send(order_id: int) -> None:
        pass

    job = await app.ajob(send.using(**options).enqueue(7).id)
    for name in {"queue", "priority", "run_at", "max_attempts", "key", "metadata"} & set(options):
        assert getattr(job, name) == options[name]
    if "tags" in options:
        assert job.tags == tuple(options["tags"])


async def test_the_largest_payload(app: Mutirao) -> None:
    """1 MiB by default, to the byte."""

    @app.task
    async def send(note: str) -> None:
        pass

    fits = "x" * ((1 << 20) - len('{"note":""}'))
    job = await app.ajob(send.enqueue(fits).id)
    assert job.args == {"note": fits}
    with pytest.raises(InvalidJob, match=r"take 1,048,577 bytes of JSON; at most 1,048,576"):
        send.enqueue(fits + "x")


async def test_metadata_is_taken_as_it_is(pg_app: Mutirao) -> None:
    """What the caller does to its dictionary afterwards does not change the job."""

    @pg_app.task
    async def send() -> None:
        pass

    shared: dict[str, int] = {}
    jobs = []
    for n in range(3):
        shared["n"] = n
        jobs.append(send.using(metadata=shared).job())
    ids = pg_app.enqueue_many(jobs)
    assert [(await pg_app.ajob(id)).metadata for id in ids] == [{"n": n} for n in range(3)]


async def test_the_caller_s_own_error(app: Mutirao) -> None:
    """What its generator raises is not the database's fault."""

    @app.task
    async def send(n: int) -> None:
        pass

    def lines() -> Iterator[NewJob]:
        yield send.job(1)
        raise FileNotFoundError("orders.csv")

    with pytest.raises(FileNotFoundError, match=r"orders\.csv"):
        app.enqueue_many(lines())
    with pytest.raises(FileNotFoundError, match=r"orders\.csv"):
        await app.aenqueue_many(lines())
    assert written(str(app.url)) == 0


async def test_a_database_without_the_tables(database_url: str) -> None:
    """The error says which command to run, whoever meets it first."""
    app = Mutirao(database_url)

    @app.task
    async def send() -> None:
        pass

    with pytest.raises(SchemaMissing, match="mutirao migrate"):
        send.enqueue()
    with pytest.raises(SchemaMissing, match="mutirao migrate"):
        await send.aenqueue()
    with pytest.raises(SchemaMissing, match="mutirao migrate"):
        app.enqueue_many([send.job()] * 3)
    with pytest.raises(SchemaMissing, match="mutirao migrate"):
        async with app.worker():
            raise AssertionError
    await app.aclose()


async def test_a_connection_that_is_none(small: Mutirao, send: Task[..., Any]) -> None:
    """It is missing, not left out: a job in a transaction of its own would be a surprise."""
    job = send.job(7)
    for call in (
        lambda: send.using(conn=None),
        lambda: small.enqueue_many([job], conn=None),
        lambda: small.enqueue_graph(chain(job, job), conn=None),
    ):
        with pytest.raises(UnsupportedConnection, match="conn= is None; give the connection"):
            call()
    with pytest.raises(UnsupportedConnection, match="conn= is None"):
        await small.aenqueue_many([job], conn=None)
    with pytest.raises(UnsupportedConnection, match="conn= is None"):
        await small.aenqueue_graph(chain(job, job), conn=None)
    assert written(str(small.url)) == 0
