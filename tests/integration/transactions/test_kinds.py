"""Whatever locks rows of several kinds does so in the order that decision 36 lists.

Somebody holds one row of a kind. Who comes to it and waits has locked none that comes later: of
the same kind, or of those behind it in the list.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.integration.transactions.kit import Others
from tests.integration.transactions.locks import ADVISORY, COLUMNS, PLACES, Holder, holding
from tests.integration.transactions.operations import LIVE, OPERATIONS, Scene
from tests.support.history import opened
from tests.support.waiting import soon

pytestmark = pytest.mark.usefixtures("patient")

TURN_ROUND = """
CREATE TEMPORARY TABLE kept ON COMMIT DROP AS SELECT * FROM {0};
DELETE FROM {0};
INSERT INTO {0} SELECT * FROM kept ORDER BY id DESC
"""


@pytest.fixture
async def scene(pg_url: str, others: Others) -> AsyncIterator[Scene]:
    """A scene in an empty database."""
    async with opened(pg_url) as store:
        yield Scene(store, others)


def test_the_page_lists_all_kinds() -> None:
    """What is looked at here is what the decision lists."""
    assert PLACES.keys() == {ADVISORY, *COLUMNS}


@pytest.mark.parametrize(
    ("what", "kind"), [(what, kind) for what, each in OPERATIONS.items() for kind in each.waits]
)
async def test_nothing_later_is_locked(scene: Scene, what: str, kind: str) -> None:
    """Neither later rows of the kind that is waited for, nor rows of later kinds."""
    act = await OPERATIONS[what].prepare(scene)
    _turn_round(scene.others)
    with holding(scene.others) as holder:
        holder.middle(kind, [(claim.id,) for claim in scene.claims] if kind == LIVE else ())
        acting = asyncio.ensure_future(act())
        await scene.others.until_someone_waits()
        later = _later(holder, kind)
    await soon(acting)
    assert later == {}


@pytest.mark.parametrize("what", OPERATIONS)
async def test_the_rest_is_passed_over(scene: Scene, what: str) -> None:
    """It waits for nobody who holds rows of other kinds, all of them."""
    each = OPERATIONS[what]
    act = await each.prepare(scene)
    with holding(scene.others) as holder:
        for kind in COLUMNS.keys() - set(each.waits):
            holder.all(kind)
        await soon(act())


def _turn_round(others: Others) -> None:
    """Let the rows lie in the opposite order, so that no scan finds them in theirs."""
    for table in ("mutirao_live", "mutirao_counter"):
        others.rows(TURN_ROUND.format(table).replace("kept", f"kept_{table}"))


def _later(holder: Holder, kind: str) -> dict[str, object]:
    own = holder.held.get(kind, [])
    found: dict[str, object] = {}
    for locked, rows in holder.others().items():
        if PLACES[locked] > PLACES[kind]:
            found[locked] = rows
        elif locked == kind and (behind := [row for row in rows if row > own[0]]):
            found[locked] = behind
    return found
