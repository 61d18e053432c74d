"""What is left of rows that were deleted by hand, for `doctor`; the same on every database.

No key of another table removes it: who deletes an endpoint has to let out what its limits hold.
"""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, select

from mutirao.model.limits.limits import LimitRecord
from mutirao.model.topics.subscriptions import SubscriptionKind, limit_names
from mutirao.model.topics.topics import SUBSCRIPTION
from mutirao.model.webhooks.endpoints import OF_ENDPOINT, limits_of
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema.endpoints import endpoint
from mutirao.sql.schema.tables import subscription
from mutirao.sql.statements import subscriptions


def limits_of_no_subscription(conn: Connection, found: Collection[LimitRecord]) -> list[str]:
    """Return the names of the limits of subscriptions that are not there any more."""
    whose = {
        each.name: each.key
        for each in found
        if each.by == SUBSCRIPTION and each.key and each.name in limit_names(each.key)
    }
    rows = subscriptions.named(conn, dialect_of(conn.dialect), [*whose.values()]) if whose else ()
    there = {row.id for row in rows}
    return [name for name, id in whose.items() if id not in there]


class LeftEndpoints(NamedTuple):
    """Ids of endpoints: of which only a subscription or limits are left, or which lack theirs."""

    gone: list[str]
    untold: list[str]


def endpoints(conn: Connection, found: Collection[LimitRecord]) -> LeftEndpoints:
    """Return the endpoints whose row or subscription was deleted by hand."""
    limited = {each.key for each in found if each.key and each.name in limits_of(each.key)}
    kind = subscription.c.kind == str(SubscriptionKind.ENDPOINT)
    names = conn.scalars(select(subscription.c.id).where(kind))
    told = {name.removeprefix(OF_ENDPOINT) for name in names}
    there = set(conn.scalars(select(endpoint.c.id)))
    return LeftEndpoints(sorted((told | limited) - there), sorted(there - told))
