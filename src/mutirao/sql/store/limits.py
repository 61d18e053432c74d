"""Limits in the tables: `mutirao.ports.records_api`."""

from mutirao.sql.schema import tables
from mutirao.sql.statements import limits
from mutirao.sql.store.part import DeclaredPart, changing_limits, reading


class SqlLimits(DeclaredPart):
    """`store.limits`."""

    declared = tables.limit
    put = changing_limits(limits.put)
    remove = changing_limits(limits.remove, frees=True)
    listed = reading(limits.listed)
    paused_queues = reading(limits.paused_queues)
