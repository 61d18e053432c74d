"""Limits in the tables: `mutirao.ports.limits`."""

from mutirao.sql.schema import tables
from mutirao.sql.statements import limits
from mutirao.sql.store.part_calls import DeclaredPart, change_limits, read


class SqlLimits(DeclaredPart):
    """`store.limits`."""

    declared = tables.limit
    put = change_limits(limits.put)
    remove = change_limits(limits.remove, frees=True)
    listed = read(limits.listed)
    paused_queues = read(limits.paused_queues)
