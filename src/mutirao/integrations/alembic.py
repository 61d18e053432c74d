"""Functions that let an application's own Alembic ignore the tables of Mutirão.

`alembic revision --autogenerate` compares all tables of the database with the application's models,
and proposes to drop the others. In `migrations/env.py` give `context.configure` these two:

    context.configure(…, include_object=include_object, include_name=include_name)

A project that has such functions already says in them: `return include_object(…) and …`.
"""

from typing import Any

PREFIX = "mutirao_"  # of everything that Mutirão makes in a database; no other table has it


def include_object(
    object: object, name: str | None, type_: str, reflected: bool, compare_to: object
) -> bool:
    """Return False for a table or view of Mutirão, in any schema; True for everything else.

    For `context.configure(include_object=…)`. Their indexes and columns are left out with them.
    Models over the views, such as `mutirao_jobs`, are left out, too: Alembic does not make them.

    Parameters:
        object: the object of SQLAlchemy.
        name: its name.
        type_: the kind of the object: "table", "column", "index", …
        reflected: whether it was found in the database.
        compare_to: its counterpart, if there is one.
    """
    return not _is_ours(name, type_)


def include_name(name: str | None, type_: str, parent_names: dict[str, Any]) -> bool:
    """Return False for a table of Mutirão, in any schema; True for everything else.

    For `context.configure(include_name=…)`: so that the tables are not even read.

    Parameters:
        name: a name in the database.
        type_: the kind of the name: "schema", "table", "column", "index", …
        parent_names: the names of the schema and the table that it is in.
    """
    return not _is_ours(name, type_)


def _is_ours(name: str | None, type_: str) -> bool:
    return type_ == "table" and name is not None and name.startswith(PREFIX)
