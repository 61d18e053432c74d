"""Revisions written in each database's own SQL, by subject, in a directory beside their script."""

import re
from pathlib import Path

from alembic.operations import Operations
from sqlalchemy import text

from mutirao.sql.registry import dialect_of

SCHEMA = "mutirao_schema"  # the option of a context that says which schema was chosen

# In this order, as views need tables. Functions find each other when they are called.
SUBJECTS = (
    "tables",
    "enqueue",
    "claim",
    "settle",
    "rescue",
    "uniqueness",
    "limits",
    "fairness",
    "graphs",
    "schedules",
    "hours",
    "views",
)
CONSTANT = re.compile(r"\$\{(\w+)\}")


def run_sql(op: Operations, script: str) -> None:
    """Execute `<script without .py>/<dialect>/<subject>.sql`, of each subject that has such a file.

    Statements are separated by lines `--;`. `${parked}` and the like stand for the dialect's
    `constants`, so that such a moment is said in one place.
    """
    context = op.get_context()
    dialect = dialect_of(context.dialect)
    for path in _files(Path(script).with_suffix("") / dialect.name):
        for statement in path.read_text(encoding="utf-8").split("\n--;\n"):
            connection = None if context.as_sql else context.connection
            whole = CONSTANT.sub(lambda found: dialect.constants[found[1]], statement.strip())
            placed = dialect.admin.in_place(whole, connection, context.opts.get(SCHEMA))
            op.execute(text(placed.replace(":", r"\:")))


def _files(directory: Path) -> list[Path]:
    """Return the files of a revision, in the order of their subjects."""
    return sorted(directory.glob("*.sql"), key=lambda path: SUBJECTS.index(path.stem))
