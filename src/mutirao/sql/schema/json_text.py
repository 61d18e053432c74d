"""JSON of rows whose values stay as they are written: numbers may have more digits than Python's.

Beside `mutirao.model.row_json`, the one reading of rows, where only the names of an object are of
interest. It raises the same error.
"""

import msgspec

from mutirao.model.row_json import NO_READING, unreadable

_UNREADABLE = (msgspec.MsgspecError, *NO_READING)


def read_raw(text: str | bytes, what: str) -> dict[str, msgspec.Raw]:
    """Return the JSON object of a row with its values as they are.

    Raises:
        UnreadableRow: it is no object, or cannot be decoded.
    """
    try:
        return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except _UNREADABLE as error:
        raise unreadable(what, error) from error
