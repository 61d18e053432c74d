"""Defects that the engine has had, or could have, put in on purpose: the simulation finds each.

What finds nothing may look at nothing. Each of these breaks one rule in one place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import Any

import pytest

from mutirao.engine.calls import outcomes
from mutirao.engine.claiming.producer import Producer
from mutirao.engine.claiming.unanswered_claims import UnansweredClaims
from mutirao.engine.claiming.unreadable_rows import UnreadableRowSearch
from mutirao.engine.dispatch import executor
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.engine.loops import LoopRetry, Loops
from mutirao.engine.settling.completer import Completer
from mutirao.model.jobs.job import Claim, Lane
from mutirao.sql.drivers.steps import Query
from mutirao.sql.rules import uniqueness
from tests.faults.simulation import faults, run

Patch = Callable[[pytest.MonkeyPatch], None]


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def _loops_end_by_what_passes(patch: pytest.MonkeyPatch) -> None:
    def met(self: LoopRetry, error: Exception) -> float:
        raise error

    patch.setattr(LoopRetry, "met", met)
    patch.setattr(Loops, "_ended", _nothing)


def _calls_have_no_limit(patch: pytest.MonkeyPatch) -> None:
    made = faults.Handle.__init__

    def endless(self: Any, *args: Any, **_: Any) -> None:
        made(self, *args[:4])

    patch.setattr(faults.Handle, "__init__", endless)


def _a_row_stops_the_others(patch: pytest.MonkeyPatch) -> None:
    async def settle(self: Any, batch: Any) -> None:
        while True:
            with suppress(Exception):
                await self._settle(batch)
                return
            await asyncio.sleep(0.1)

    patch.setattr(Completer, "_settle_or_put_aside", settle)


def _handlers_start_whoever_lives(patch: pytest.MonkeyPatch) -> None:
    def live(self: Dispatcher, _: float) -> None:
        self._lives_until = inf

    patch.setattr(Dispatcher, "set_lifetime", live)
    patch.setattr(faults, "FAULTS", {"answers late": 1.0})  # or it takes some hundred seeds
    patch.setattr(run, "TROUBLES", ["_freeze"])
    patch.setattr(run, "MOST_TROUBLES", 10)


def _claims_of_a_dead_id_are_taken(patch: pytest.MonkeyPatch) -> None:
    async def take(self: Producer, lanes: list[Lane], wanted: int) -> list[Claim]:
        without = tuple(self._served.left)
        return await self._store.claim(self._row.id, lanes, wanted, without=without)

    patch.setattr(Producer, "_take", take)


def _nobody_waits_for_a_key(patch: pytest.MonkeyPatch) -> None:
    def follow(*_: Any) -> Query[None]:
        yield from ()

    patch.setattr(uniqueness, "_follow", follow)


def _what_has_expired_is_started(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outcomes, "of_expiry", _nothing)


def _no_row_is_searched_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UnreadableRowSearch, "met", _nothing)
    patch.setattr(run, "TROUBLES", ["_spoil"])


MUTANTS: dict[str, Patch] = {
    "a loop ends by what passes": _loops_end_by_what_passes,
    "calls have no limit": _calls_have_no_limit,
    "a row stops the others": _a_row_stops_the_others,
    "what a lost answer left is not looked for": lambda patch: patch.setattr(
        UnansweredClaims, "doubt", _nothing
    ),
    "claims of a dead id are taken": _claims_of_a_dead_id_are_taken,
    "handlers start whoever lives": _handlers_start_whoever_lives,
    "who ends its workers lives for ever": lambda patch: patch.setattr(
        executor, "MAX_LOST_RUNS", inf
    ),
    "nobody waits for a key": _nobody_waits_for_a_key,
    "a row of which every claim fails is not searched for": _no_row_is_searched_for,
    "what has expired is started": _what_has_expired_is_started,
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Let one defect be there."""
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[name](patch)
        yield
