"""Decoders of what other programs publish: plain JSON, Kombu's JSON, Celery's tasks.

Each takes a `ForeignMessage` and returns the call that `@app.consumer` makes of it. An exception
that it raises becomes the cause of the dead message.
"""

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from mutirao.model.brokers.foreign import Decode, Decoded, ForeignMessage

__all__ = ["Decode", "Decoded", "ForeignMessage", "celery", "json_arguments", "kombu"]

JSON_TYPES = (None, "application/json", "text/json")
# The types that Kombu writes as {"__type__": …, "__value__": …}, as JSON has no such values.
_KOMBU: Mapping[str, Any] = {
    "bytes": str.encode,
    "base64": b64decode,
    "datetime": datetime.fromisoformat,
    "date": lambda text: date.fromisoformat(text[:10]),
    "time": time.fromisoformat,
    "decimal": Decimal,
    "uuid": lambda value: UUID(value["hex"] if isinstance(value, dict) else value),
}
_OF_CELERY_ALONE = ("callbacks", "errbacks", "chain", "chord")


def json_arguments(message: ForeignMessage) -> Mapping[str, Any]:
    """Read a JSON object as the arguments by name. The decoder of a consumer that names none.

    Raises:
        ValueError: the body is no JSON object in UTF-8.
    """
    return _object(json.loads(message.body.decode()))


def kombu(message: ForeignMessage) -> Mapping[str, Any]:
    """Read a JSON object of Kombu as the arguments by name.

    Moments, dates, decimals, UUIDs and bytes, which Kombu marks, become these.

    Raises:
        ValueError: the body is no JSON object, or its content type is another serializer's.
    """
    return _object(_kombu_json(message))


def celery(message: ForeignMessage) -> Decoded:
    """Read a task of Celery: protocol 2, JSON. Its name is the task's, its id the job's.

    `eta` and `expires` count, and the shorter of its time limits. Retries are counted by us
    from the first attempt; results are dropped, whatever `reply_to` is.

    Raises:
        ValueError: it is of another protocol or serializer, compressed, or has what only Celery can
            go on with: callbacks, a chain, a chord.
    """
    headers = message.headers
    task, id = headers.get("task"), headers.get("id")
    if not isinstance(task, str) or not isinstance(id, str):
        raise ValueError(
            "it has no headers `task` and `id`, as tasks of Celery's protocol 2 have; publish with"
            " task_protocol = 2"
        )
    body = _kombu_json(message)
    if not isinstance(body, list) or len(body) != 3:
        raise ValueError("its body is not [args, kwargs, embed], as Celery's protocol 2 has it")
    args, kwargs, embed = body
    if not isinstance(args, list) or not isinstance(embed, dict | None):
        raise ValueError(
            "its args are no list, or its embed is no object; see protocol 2 of Celery"
        )
    if unfit := [name for name in _OF_CELERY_ALONE if (embed or {}).get(name)]:
        raise ValueError(
            f"it has {', '.join(unfit)}, which only Celery can go on with; leave it to Celery, or"
            " have the task enqueue what follows"
        )
    return Decoded(
        args=_object(kwargs),
        positional=args,
        task=task,
        id=id,
        run_at=_moment(headers.get("eta")),
        expires_at=_moment(headers.get("expires")),
        timeout=_shorter(headers.get("timelimit")),
    )


def _kombu_json(message: ForeignMessage) -> Any:
    if message.content_type not in JSON_TYPES:
        raise ValueError(
            f"its content type is {message.content_type!r}; publish with the serializer json"
        )
    if compressed := message.headers.get("compression"):
        raise ValueError(f"it is compressed ({compressed}); publish without compression")
    return json.loads(message.body.decode(), object_hook=_unmarked)


def _unmarked(found: dict[str, Any]) -> Any:
    """Return the value that Kombu has marked; anything else as it is."""
    if found.keys() != {"__type__", "__value__"}:
        return found
    if (kind := found["__type__"]) not in _KOMBU:
        raise ValueError(f"it has a value of the type {kind!r}, which only its publisher can read")
    return _KOMBU[kind](found["__value__"])


def _object(found: Any) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(
            f"it has a {type(found).__name__} where a JSON object of the arguments by name is"
            " expected; give decode= a function that reads it"
        )
    return found


def _moment(text: object) -> datetime | None:
    if text is None:
        return None
    found = datetime.fromisoformat(str(text))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _shorter(limits: object) -> float | None:
    if not isinstance(limits, Sequence):
        return None
    return min((each for each in limits if isinstance(each, int | float)), default=None)
