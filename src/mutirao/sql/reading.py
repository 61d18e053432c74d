"""JSON as people and dashboards read it: what one row holds must not keep them from the others."""

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """Return what JSON says; of what Python cannot read, an object that says so.

    Other programs write jobs, too, and databases accept what Python does not: objects within
    objects within objects.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return {"unreadable": f"{type(error).__name__}: {error}"}
