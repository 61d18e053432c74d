"""The GRANT statements of the roles of `grants`, as text for people to run."""

from collections.abc import Collection, Iterator
from textwrap import wrap

from mutirao.errors import ConfigurationError
from mutirao.sql.dialects.postgresql import grants, sets

PRINT_WIDTH = 100  # characters of a printed line

# Privileges that PUBLIC has on `public` and on functions, unless they were revoked.
_USABLE = {"Where PUBLIC may not use the schema": f"GRANT USAGE ON {grants.SCHEMA} TO {{to}}"}
_CALLABLE = {
    "Where PUBLIC may not call functions": (
        f"GRANT EXECUTE ON ALL FUNCTIONS IN {grants.SCHEMA} TO {{to}}"
    ),
}


def sql(names: Collection[str], to: str | None = None, schema: str | None = None) -> str:
    """Return the GRANT statements of some roles, of all if none is named; a section each.

    Parameters:
        to: the role of the database that gets them; None: a name for each.
        schema: the one that was chosen for the tables, which no other role may use; None: `public`.

    Raises:
        ConfigurationError: there is no such role, or the schema cannot be one.
    """
    if schema is not None and (reason := sets.schema_refusal(schema)) is not None:
        raise ConfigurationError(reason)
    return "\n".join(_section(name, to, schema) for name in names or grants.ROLES)


def _section(name: str, to: str | None, schema: str | None) -> str:
    role = grants.role_named(name)
    login = grants.PREPARER.quote(to or role.login)
    lines = [
        *_wrapped(f"{name}: {role.does}", "-- "),
        *(line for on, why in _reasons(name).items() for line in _reason(on, why, schema)),
        *_statements(name, login, schema),
        *(f"-- {when}: {what};" for when, what in _sometimes(role, login, schema).items()),
    ]
    return "\n".join(lines) + "\n"


def _sometimes(role: grants.Role, login: str, schema: str | None) -> dict[str, str]:
    usual = {**_USABLE, **_CALLABLE} if schema is None else _CALLABLE
    return {
        when: _placed(what, schema).format(to=login)
        for when, what in {**usual, **role.also}.items()
    }


def _reason(on: str, why: str, schema: str | None) -> list[str]:
    where = grants.SCHEMA if schema is None else f"SCHEMA {sets.quoted(schema)}"
    return _wrapped(f"{where if on == grants.SCHEMA else on}: {why}", "-- ")


def _statements(name: str, login: str, schema: str | None) -> Iterator[str]:
    needed = grants.privileges(name)
    if schema is not None:
        if grants.SCHEMA in needed:
            # Its owner, so that it can let the others in.
            yield f"CREATE SCHEMA IF NOT EXISTS {sets.quoted(schema)} AUTHORIZATION {login};"
        yield f"GRANT USAGE ON SCHEMA {sets.quoted(schema)} TO {login};"
    for text, on in grants.grouped(needed).items():
        # A schema or a sequence is named with what it is: once, before all of its kind.
        kinds = {each.rpartition(" ")[0] for each in on}
        for kind in sorted(kinds):
            named = [each for each in on if each.rpartition(" ")[0] == kind]
            names = [_placed(each, schema).rpartition(" ")[2] for each in named]
            yield f"GRANT {text} ON {kind}".rstrip()
            yield from _wrapped(f"{', '.join(names)} TO {login};", "    ")


def _wrapped(text: str, indent: str) -> list[str]:
    return wrap(text, PRINT_WIDTH, initial_indent=indent, subsequent_indent=indent)


def _reasons(name: str) -> dict[str, str]:
    role = grants.role_named(name)
    reasons: dict[str, str] = {}
    for part in role.beyond:
        reasons |= _reasons(part)
    return reasons | dict(role.why)


def _placed(text: str, schema: str | None) -> str:
    """Return a statement, or a part of one, about the tables in `schema`."""
    if schema is None:
        return text
    return sets.qualified(text.replace(grants.SCHEMA, f"SCHEMA {sets.quoted(schema)}"), schema)
