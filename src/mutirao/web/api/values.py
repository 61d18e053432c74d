"""Values that are the same in all of the API: ids, and moments.

An id is answered as text, as JavaScript loses what is above 2^53 of a number; it is accepted as
either.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from mutirao.model.jobs.records import MAX_INTEGER
from mutirao.model.keys.uniqueness import PARKED

_TEXT = Meta(pattern="^[1-9][0-9]{0,18}$", description="An id, as text or as a number.")
Id: TypeAlias = Annotated[str, _TEXT] | Annotated[int, Meta(ge=1, le=MAX_INTEGER)]
IdText: TypeAlias = str
T = TypeVar("T", bound=msgspec.Struct)


def id_of(given: str | int) -> int:
    """Return an id as a number.

    Raises:
        ValueError: it is larger than any.
    """
    id = int(given)
    if id > MAX_INTEGER:
        raise ValueError(f"expected at most {MAX_INTEGER}")
    return id


def id_text(id: int | None) -> IdText | None:
    """Return an id as it is answered."""
    return None if id is None else str(id)


def due(run_at: datetime) -> datetime | None:
    """Return when a job is due; None while it waits for another one."""
    return None if run_at == PARKED else run_at.astimezone(UTC)


def copied(kind: type[T], record: object, **given: Any) -> T:
    """Return the answer for a record: the fields of the same names, except the given ones."""
    values = {
        name: given[name] if name in given else _plain(getattr(record, name))
        for name in kind.__struct_fields__
    }
    return kind(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return list(value) if isinstance(value, tuple) else value
