"""What is remembered of what rows, messages and programs bring has a bound, or goes with it."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.orm import sessionmaker

from mutirao.hub.protocol import HelloLine, Serves
from mutirao.hub.server import Client, Hub
from mutirao.model.jobs.events import EventKey
from mutirao.model.jobs.job import Lane, LaneHead
from mutirao.ports.events import MAX_KEYS, Drops
from mutirao.sql.drivers import kinds
from mutirao.transports.event_buffer import EventBuffer
from tests.support.engine import MOST_LOGGED, LaneBook, ServedTasks

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_classes_of_connections() -> None:
    """A program that makes a `sessionmaker` for each request makes a class for each."""
    known = kinds.Kinds[Any](kinds.Adapting("sqlalchemy.orm", "Session", lambda session: session))
    for _ in range(3 * kinds.MOST_CLASSES):
        assert known.of(sessionmaker()()) is known.each[0]
    assert len(known._met) <= kinds.MOST_CLASSES


def test_tasks_of_messages() -> None:
    """Messages may name any; of rows all are remembered, as claims leave them out."""
    messages, rows = ServedTasks((), most=MOST_LOGGED), ServedTasks(())
    for n in range(2 * MOST_LOGGED + 1):
        messages.leave([f"task_{n}"])
        rows.leave([f"task_{n}"])
    assert len(messages.left) == MOST_LOGGED
    assert len(rows.left) == 2 * MOST_LOGGED + 1


def test_tasks_that_come_in_turn(caplog: pytest.LogCaptureFixture) -> None:
    """More than are remembered are not logged again and again."""
    served = ServedTasks((), most=MOST_LOGGED)
    for _ in range(3):
        for n in range(MOST_LOGGED + 1):
            served.leave([f"task_{n}"])
    assert len(caplog.records) == MOST_LOGGED + 1
    assert "1000 such tasks were logged" in caplog.messages[-1]


def test_numbers_of_events() -> None:
    """Queues may be ids, of which there are always more."""
    buffer = EventBuffer(Drops("here"))
    for n in range(2 * MAX_KEYS):
        event: Any = SimpleNamespace(key=EventKey("started", "greet", f"q-{n}"))
        buffer.add(event)
        assert [each.first for each in buffer.take()] == [0]
    assert len(buffer._numbers) <= MAX_KEYS


def test_numbers_of_events_that_were_dropped() -> None:
    """A listener notices them, however many others come beside."""
    buffer = EventBuffer(Drops("here"), most=MAX_KEYS + 1)
    ours: Any = SimpleNamespace(key=EventKey("started", "greet", "ours"))
    buffer.add(ours)
    for n in range(MAX_KEYS):
        event: Any = SimpleNamespace(key=EventKey("started", "greet", f"q-{n}"))
        buffer.add(event)
    for _ in range(7):
        buffer.add(ours)  # there is no room
    assert len(list(buffer.take())) == MAX_KEYS + 1
    buffer.add(ours)
    assert [each.first for each in buffer.take()] == [8]


def test_turns_of_priorities() -> None:
    """Any number may be one."""
    lanes = LaneBook(None)
    for n in range(3_000):
        lanes.asking()
        heads = [LaneHead(Lane(queue, n, NOW, 1), 0) for queue in "ab"]
        lanes.refresh(heads, n)
        claim: Any = SimpleNamespace(queue="a", lane="a", priority=n, run_at=NOW, id=1)
        assert len(lanes.due(n)) == 2
        lanes.claimed([claim], n)
    assert len(lanes._begins) <= 1_001


def test_databases_of_a_hub() -> None:
    """Clients say any name; that of a database which nobody looks at goes with its last one."""
    hub = Hub()
    for n in range(3):
        client = Client(hub)
        hub.enter(client)
        hub.greet(client, HelloLine(f"d-{n}", "", Serves()))
        hub.leave(client)
    assert (hub._new, hub._circles, hub._clients) == ({}, {}, set())
