"""The parts of the store that are objects, each loaded with its statements when it is asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mutirao.sql.store.audit import SqlAudit
    from mutirao.sql.store.endpoints import SqlEndpoints
    from mutirao.sql.store.federation import SqlFederation
    from mutirao.sql.store.limits import SqlLimits
    from mutirao.sql.store.reading import SqlReading
    from mutirao.sql.store.schedules import SqlSchedules
    from mutirao.sql.store.sender import StatementSender
    from mutirao.sql.store.subscriptions import SqlSubscriptions


class Parts:
    """The parts of a store, each made when it is first asked for."""

    _sender: StatementSender

    @cached_property
    def schedules(self) -> SqlSchedules:
        """Schedules."""
        from mutirao.sql.store.schedules import SqlSchedules

        return SqlSchedules(self._sender)

    @cached_property
    def limits(self) -> SqlLimits:
        """Limits."""
        from mutirao.sql.store.limits import SqlLimits

        return SqlLimits(self._sender)

    @cached_property
    def subscriptions(self) -> SqlSubscriptions:
        """Topics and their subscriptions."""
        from mutirao.sql.store.subscriptions import SqlSubscriptions

        return SqlSubscriptions(self._sender)

    @cached_property
    def reading(self) -> SqlReading:
        """What pages show."""
        from mutirao.sql.store.reading import SqlReading

        return SqlReading(self._sender)

    @cached_property
    def audit(self) -> SqlAudit:
        """Actions on many jobs, and their audit."""
        from mutirao.sql.store.audit import SqlAudit

        return SqlAudit(self._sender)

    @cached_property
    def endpoints(self) -> SqlEndpoints:
        """Endpoints, webhooks and breakers."""
        from mutirao.sql.store.endpoints import SqlEndpoints

        return SqlEndpoints(self._sender)

    @cached_property
    def federation(self) -> SqlFederation:
        """Hosts, and what was sent to them last."""
        from mutirao.sql.store.federation import SqlFederation

        return SqlFederation(self._sender)
