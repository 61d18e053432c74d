"""Functions and operators that fit better than PostgreSQL's own, as a hostile role would make them.

In a schema on everybody's path they would run with the rights of the callers of ours.
"""

from __future__ import annotations

_FUNCTIONS = {
    "cardinality(bigint[])": "integer",
    "cardinality(text[])": "integer",
    "unnest(bigint[])": "SETOF bigint",
    "unnest(text[])": "SETOF text",
    "unnest(integer[])": "SETOF integer",
    "array_to_string(text[], text)": "text",
    "array_to_string(bigint[], text)": "text",
    "array_position(bigint[], bigint)": "integer",
    "array_replace(timestamptz[], timestamptz, timestamptz)": "timestamptz[]",
    "concat_ws(text, text, text)": "text",
    "format(text, text)": "text",
    "format(text, integer, name, text)": "text",
    "glue(text, bigint)": "text",
    "joined(bigint[], bigint)": "bigint[]",
}
_OPERATORS = {"||": [("text", "bigint", "glue"), ("bigint[]", "bigint", "joined")]}


def statements() -> str:
    """Return what makes them all; each of them raises when it is called."""
    made = [
        f"CREATE FUNCTION public.{name} RETURNS {returned} LANGUAGE plpgsql AS $$"
        f" BEGIN RAISE EXCEPTION 'caught in a hostile {name}'; END $$"
        for name, returned in _FUNCTIONS.items()
    ]
    made += [
        f"CREATE OPERATOR public.{name}"
        f" (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.{of})"
        for name, each in _OPERATORS.items()
        for left, right, of in each
    ]
    return ";\n".join(made)
