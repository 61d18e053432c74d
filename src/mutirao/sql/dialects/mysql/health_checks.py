"""What may ail Mutirão's tables on MariaDB: the plan of a claim, and transactions given up."""

from collections.abc import Iterator

from sqlalchemy import Connection

from mutirao.model.findings import Finding, Level

_CLAIM_PLAN = """
EXPLAIN SELECT id FROM mutirao_live
WHERE worker IS NULL AND queue = 'default' AND priority = 0 AND run_at >= 0 AND run_at <= 1
ORDER BY run_at, id LIMIT 100
"""
_RETRIES = "SELECT retries FROM mutirao_lock WHERE name = 'retries'"


def health_checks(connection: Connection) -> Iterator[Finding]:
    """Examine the plan of a claim, and count the transactions that were tried again."""
    [plan] = connection.exec_driver_sql(_CLAIM_PLAN).mappings()
    if plan["key"] == "mutirao_live_waiting" and "filesort" not in plan["Extra"]:
        yield Finding(Level.OK, "claims", "read by the index mutirao_live_waiting")
    else:
        found = f"the planner reads mutirao_live by {plan['key']}: {plan['Extra']}"
        yield Finding(Level.PROBLEM, "claims", found, "run ANALYZE TABLE mutirao_live")
    retries = connection.exec_driver_sql(_RETRIES).scalar_one()
    yield Finding(
        Level.OK, "retries", f"{retries} transactions were tried again, given up for others"
    )
