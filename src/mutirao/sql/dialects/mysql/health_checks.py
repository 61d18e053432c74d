"""What may ail Mutirão's tables on MariaDB: the index of a claim, and transactions given up."""

from collections.abc import Iterator

from sqlalchemy import Connection

from mutirao.model.findings import Finding, Level

_CLAIM_INDEX = "SHOW INDEX FROM mutirao_live WHERE Key_name = 'mutirao_live_waiting'"
_RETRIES = "SELECT retries FROM mutirao_lock WHERE name = 'retries'"


def health_checks(connection: Connection) -> Iterator[Finding]:
    """Look for the index that claims name, and count the transactions that were tried again."""
    if connection.exec_driver_sql(_CLAIM_INDEX).all():
        yield Finding(Level.OK, "claims", "read by the index mutirao_live_waiting")
    else:
        yield Finding(
            Level.PROBLEM,
            "claims",
            "the index mutirao_live_waiting is missing",
            "add it as `mutirao schema --dialect mysql` has it",
        )
    retries = connection.exec_driver_sql(_RETRIES).scalar_one()
    yield Finding(
        Level.OK, "retries", f"{retries} transactions were tried again, given up for others"
    )
