"""What is published in the chaos, and afterwards: each subscription was told once, and in order.

Every other subscription has an order: its deliveries of one key are made one after another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, select

from mutirao import Mutirao
from mutirao.model.jobs.job import OutcomeKind
from mutirao.sql.schema.tables import delivery
from mutirao.tasks.topics.subscription_options import SubscriptionTerms
from tests.faults.chaos import app
from tests.faults.chaos.audit import flaws
from tests.faults.kit.histories import histories

KEYS = 10


def publish(application: Mutirao, publications: int, subscriptions: int, pause: float) -> None:
    """Subscribe and publish."""
    if not publications:
        return
    note = application.subscriber(app.note.name)(stand_for_note)
    for number in range(subscriptions):
        order: SubscriptionTerms = {}
        if _is_ordered(number):
            order = {"order_by": "key", "when_dead": "stop"}
        application.subscriptions.put(f"s{number}", note, app.happened.topic, **order)
    topic = application.topic(app.happened.topic)
    topic.publish_many({"key": number % KEYS, "pause": pause} for number in range(publications))


async def stand_for_note(said: dict[str, float]) -> None:
    """Stand for the handler of the workers, in an application that has none."""


def audit(connection: Connection, publications: int, subscriptions: int) -> Iterator[str]:
    """Yield what is not as promised."""
    rows = connection.execute(select(app.told).order_by(app.told.c.id)).all()
    made = connection.execute(select(delivery)).all()
    yield from once("row", rows, publications, subscriptions)
    yield from once("delivery", made, publications, subscriptions)
    history = histories(connection)
    for each in made:
        yield from (f"delivery {each.job} {flaw}" for flaw in flaws(history[each.job]))
    for row in rows:
        runs = [a.run for a in history[row.job] if a.outcome is OutcomeKind.SUCCEEDED]
        if runs != [row.run]:
            yield f"delivery {row.job} wrote its row in run {row.run}, and succeeded in {runs}"
    yield from disorder(rows)


def once(what: str, found: Sequence[Any], publications: int, subscriptions: int) -> Iterator[str]:
    """Yield what is there more than once, and whether something is missing."""
    times = Counter((each.publication, each.subscription) for each in found)
    yield from (f"{pair} has {n} of a {what}" for pair, n in times.items() if n > 1)
    if len(times) != publications * subscriptions:
        yield f"{len(times)} have a {what}, of {publications * subscriptions}"


def disorder(rows: Sequence[Any]) -> Iterator[str]:
    """Yield what came after a later publication about the same thing."""
    lines: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        if _is_ordered(int(row.subscription[1:])):
            lines.setdefault((row.subscription, row.key), []).append(row.publication)
    for line, publications in lines.items():
        for before, after in pairwise(publications):
            if before > after:
                yield f"{line}: {before} came before {after}"


def _is_ordered(number: int) -> bool:
    return number % 2 == 1
