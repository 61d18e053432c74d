"""Revisions written in each database's own SQL, by subject, in a directory beside their script."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from alembic.operations import Operations
from sqlalchemy import Connection, Dialect as SqlAlchemyDialect, text

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
    "carried",
    "graphs",
    "schedules",
    "topics",
    "inbox",
    "federation",
    "hours",
    "views",
    "topic_views",
    "endpoints",
    "audit",
)
_FRAGMENT = re.compile(r"^--: (\w+)((?: \w+)*)\n(.*)\Z", re.MULTILINE | re.DOTALL)
_USE = re.compile(r"\$\{(\w+)(?:: ([^{}]*))?\}")  # without another one in it


class Fragment(NamedTuple):
    """A piece of SQL with a name, in which `${parameter}` is replaced by a value."""

    parameters: tuple[str, ...]
    sql: str

    def filled(self, values: str | None) -> str:
        """Return it with values, which `; ` separates, in the place of its parameters."""
        given = () if values is None else values.split("; ")
        whole = self.sql
        for parameter, value in zip(self.parameters, given, strict=True):
            whole = whole.replace(f"${{{parameter}}}", value)
        return whole


def run_sql(op: Operations, script: str) -> None:
    """Execute `<script without .py>/<dialect>/<subject>.sql`, of each subject that has such a file.

    What they may say once is described at `statements_of`. `${parked}` and the like stand for the
    dialect's `constants`.
    """
    context = op.get_context()
    connection = None if context.as_sql else context.connection
    schema = context.opts.get(SCHEMA)
    for statement in placed_statements(Path(script), context.dialect, connection, schema):
        op.execute(text(statement.replace(":", r"\:")))


def placed_statements(
    script: Path, dialect: SqlAlchemyDialect, connection: Connection | None, schema: str | None
) -> Iterator[str]:
    """Yield the statements of a revision for a database, adapted to the schema of the tables."""
    found = dialect_of(dialect)
    files = _files(script.with_suffix("") / found.name)
    for statement in statements_of(map(_read, files), found.constants):
        yield from found.admin.in_place(statement, connection, schema)


def statements_of(files: Iterable[str], constants: Mapping[str, str]) -> Iterator[str]:
    """Yield the statements of files, which lines `--;` separate, with all fragments in place.

    A piece of SQL that several statements share is written once, as a fragment: under a line
    `--: moment at`, where `moment` is its name and `at` a parameter. Statements after it, in this
    file and in those of later subjects, use it as `${moment: l.run_at}`; `; ` separates several
    values. A fragment may use earlier ones, and so may a value. So the database is given the same
    text as if all had been written out, and plans it in the same way.

    Raises:
        KeyError: there is no fragment or constant of that name.
        ValueError: a fragment has another number of parameters.
    """
    fragments = {name: Fragment((), sql) for name, sql in constants.items()}
    for statement in (piece for file in files for piece in file.strip().split("\n--;\n")):
        if found := _FRAGMENT.search(statement):
            fragments[found[1]] = Fragment(tuple(found[2].split()), found[3].strip())
        else:
            yield _expanded(statement.strip(), fragments)


def _expanded(sql: str, fragments: Mapping[str, Fragment]) -> str:
    while found := _USE.search(sql):
        sql = sql[: found.start()] + fragments[found[1]].filled(found[2]) + sql[found.end() :]
    return sql


def _files(directory: Path) -> list[Path]:
    """Return the files of a revision, in the order of their subjects."""
    return sorted(directory.glob("*.sql"), key=lambda path: SUBJECTS.index(path.stem))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
