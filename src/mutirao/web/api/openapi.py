"""The OpenAPI document, made of the table of operations and the types that they read and answer."""

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

import msgspec

from mutirao.web.access import Permission
from mutirao.web.api.call import LONGEST_NAME
from mutirao.web.api.operation import PREFIX, Operation
from mutirao.web.api.problems import MEDIA_TYPE, Problem
from mutirao.web.api.values import Id

REF = "#/components/schemas/{name}"
_USUAL = {
    401: "No token, or none that is known.",
    403: "The token has not the scope, or sees only some jobs.",
    500: "It has failed; what is not foreseen is in the log of the program.",
    503: "The database cannot be used, took too long, or has other tables.",
}
_READ = {
    400: "The body is no JSON.",
    413: "The body has more than 1 MiB.",
    415: "The body is not `application/json`.",
}
_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "name": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
}


def document(operations: Iterable[Operation], server: str) -> dict[str, Any]:
    """Return the document.

    Parameters:
        server: the path below which the operations are.
    """
    listed = tuple(operations)
    types = [each for one in listed for each in (one.query, one.body, one.answer) if each]
    schemas, components = msgspec.json.schema_components((*types, Problem, Id), ref_template=REF)
    by_type = dict(zip(map(repr, (*types, Problem, Id)), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in listed:
        of_path = paths.setdefault(each.path, {})
        of_path[each.method.lower()] = _operation(each, by_type, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Mutirão",
            "version": version("mutirao"),
            "description": "Background jobs: look at everything, and act.",
        },
        "servers": [{"url": server + PREFIX}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": _SCOPES}
            },
        },
    }


_SCOPES = "A token with a scope; each may do what those before it may: " + ", ".join(
    role.name.lower() for role in Permission if role is not Permission.NONE
)


def _operation(
    each: Operation, by_type: Mapping[str, Any], components: Mapping[str, Any]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.does,
        "security": [{"token": [each.role.name.lower()]}],
        "parameters": _parameters(each, by_type, components),
        "responses": _responses(each, by_type),
    }
    if each.body is not None:
        content = {"application/json": {"schema": by_type[repr(each.body)]}}
        required = bool(components[each.body.__name__].get("required"))
        found["requestBody"] = {"content": content, "required": required}
    return found


def _parameters(
    each: Operation, by_type: Mapping[str, Any], components: Mapping[str, Any]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _PARAMETERS.get(name) or _id_in_path(by_type[repr(Id)]),
        }
        for name in re.findall(r"{(\w+)}", each.path)
    ]
    if each.query is not None:
        of_query = components[each.query.__name__]
        found += [
            {"name": name, "in": "query", "required": name in of_query.get("required", ()),
             "schema": schema}
            for name, schema in of_query["properties"].items()
        ]  # fmt: skip
    if each.keyed:
        found.append(_KEY)
    if each.tagged:
        found.append(_IF_NONE_MATCH)
    return found


def _id_in_path(id: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an id that can only be text."""
    [text] = [each for each in id["anyOf"] if each["type"] == "string"]
    return dict(text)


_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "With the same key, the same body enqueues no second job for a day after it.",
    "schema": {"type": "string", "pattern": "^[!#-~]{1,200}$"},
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "The ETag of an answer that is known.",
    "schema": {"type": "string"},
}


def _responses(each: Operation, by_type: Mapping[str, Any]) -> dict[str, Any]:
    answer = {"application/json": {"schema": by_type[repr(each.answer)]}}
    said = {"description": "It is done." if each.acts else "What was asked for.", "content": answer}
    found: dict[str, Any] = {str(status): said for status in each.statuses}
    if each.tagged:
        found["304"] = {"description": "It is as the ETag says."}
    of_body = _READ if each.body is not None else {}
    invalid = {422: "Something that was sent is invalid; `place` says where."}
    refusals = {**_USUAL, **of_body, **invalid, **each.refusals}
    problem = {MEDIA_TYPE: {"schema": by_type[repr(Problem)]}}
    for status, meaning in sorted(refusals.items()):
        found[str(status)] = {"description": meaning, "content": problem}
    return found
