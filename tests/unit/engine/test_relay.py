"""When a worker asks for the duty of the relay."""

from __future__ import annotations

from typing import Any

import pytest

from mutirao.engine.brokers import relay
from mutirao.engine.brokers.relay import Relay
from mutirao.engine.loops import LoopHealth
from mutirao.engine.settings import WorkerSettings, identity
from mutirao.engine.worker_row import WorkerRow


class Elsewhere:
    """A store in which another worker holds the duty, and nothing is due."""

    def __init__(self) -> None:
        self.asked = 0

    async def held_elsewhere(self, duty: str, worker: int) -> float:
        """As `Store.held_elsewhere`."""
        self.asked += 1
        return 10.0

    async def lanes(self, queues: object) -> list[Any]:
        """As `Store.lanes`."""
        return []


async def test_who_is_told_need_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat that tells of a renewed lease puts the question off."""
    now, store = 1_000.0, Elsewhere()
    monkeypatch.setattr(relay, "monotonic", lambda: now)
    asking: Any = store
    settings = WorkerSettings()
    row = WorkerRow(asking, identity(settings, ""), 2)
    it = Relay(row, {}, {}, settings, lambda: 1, "relay")
    pulse = LoopHealth("relay", 90.0)
    for passed, left in ((0.0, 0.0), (7.5, 7.5), (7.5, 7.5)):
        now += passed
        it.note_holder(left)
        await it._turn(pulse)
    assert store.asked == 1
    now += 8.5
    await it._turn(pulse)
    assert store.asked == 2
