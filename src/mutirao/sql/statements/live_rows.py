"""Changes of live rows by their ids, said so that planners do not read the whole table."""

from sqlalchemy import Update, update

from mutirao.sql.schema.tables import live


def update_live() -> Update:
    """Return an UPDATE of live rows by ids. MySQL would read a small table whole, and wait.

    The hint is one of MySQL and MariaDB; other databases do not see it.
    """
    return update(live).with_hint("FORCE INDEX (PRIMARY)")
