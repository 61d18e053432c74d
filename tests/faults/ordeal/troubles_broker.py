"""Troubles of the broker that carries jobs. What it loses is rung again, within the grace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.faults.kit.broker import Broker
from tests.faults.ordeal.app import CARRIED
from tests.faults.ordeal.fleet import DOORBELL_GRACE
from tests.faults.ordeal.plan import Event, Lasts
from tests.faults.ordeal.troubles import Catalogue, Scene, repeatedly

BROKER = Catalogue()
DELETE_EVERY = 1.0  # seconds
# Seconds until what was lost is rung again: five in which nothing is heard, then the grace, twice
# if it was rung just before.
RUNG_AGAIN = 5.0 + 2 * DOORBELL_GRACE


@BROKER.trouble("broker-crash", Lasts.AT_ONCE, allowance=RUNG_AGAIN)
def crash(scene: Scene[Any], event: Event) -> Iterator[str]:
    """End the broker with SIGKILL, and start it again."""
    _broker_of(scene).crash()
    yield "SIGKILL of the broker, which is started again"


@BROKER.trouble("broker-cut", allowance=RUNG_AGAIN)
def cut(scene: Scene[Any], event: Event) -> Iterator[str]:
    """Let no worker reach the broker."""
    with _broker_of(scene).out_of_reach():
        yield "the broker is out of reach"


@BROKER.trouble("broker-delete", allowance=RUNG_AGAIN)
def delete(scene: Scene[Any], event: Event) -> Iterator[str]:
    """Delete the queue again and again: a purge finds nothing, as workers take it at once."""
    broker = _broker_of(scene)
    with repeatedly(DELETE_EVERY, lambda: broker.delete(CARRIED)):
        yield "the queue is deleted and made anew, again and again"


def _broker_of(scene: Scene[Any]) -> Broker:
    broker: Broker | None = scene.stage.broker
    assert broker is not None
    return broker
