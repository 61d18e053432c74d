"""Values of Django as arguments: lazy texts become texts; rows and queries are refused.

Nothing here imports Django: if it is not loaded, no value can be one of its classes.
"""

import sys
from typing import Any


def plain(value: object) -> str | None:
    """Return a lazy text in the language that is active now; None for anything else.

    Raises:
        TypeError: it is a model's row, or a query; the message says what to pass instead.
    """
    name = type(value).__name__
    if _is_a("django.utils.functional", "Promise", value):
        return str(value)
    if _is_a("django.db.models", "Model", value):
        raise TypeError(
            f"{name} is a model of Django, whose row may be another one when the job runs; pass its"
            f" pk, and have the handler get the {name} by it"
        )
    if _is_a("django.db.models", "QuerySet", value):
        raise TypeError(
            f"{name} is a query of Django, which may find other rows when the job runs; pass the"
            " pks: [*found.values_list('pk', flat=True)]"
        )
    return None


def _is_a(module: str, name: str, value: object) -> bool:
    kind: Any = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)
