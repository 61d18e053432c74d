"""JSON for people and dashboards: one unreadable row must not hide the others."""

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """Return the decoded JSON, or an object with the error if Python cannot decode it.

    Other programs write jobs, too, and databases accept JSON that Python does not: objects within
    objects within objects.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return {"unreadable": f"{type(error).__name__}: {error}"}
