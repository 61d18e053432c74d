"""A process that enqueues jobs of a few keys with a supersede rule, as fast as it can."""

from __future__ import annotations

import json
import sys

from mutirao.model.keys.uniqueness import Placed
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.supersede import activity

KEYS = 3


def race(url: str, times: int) -> None:
    """Begin when told to, by a line; print a key, an id and how it came to, for each enqueue."""
    store = SqlStore(url)
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    for n in range(times):
        key, kind = f"k{n % KEYS}", ("Create", "Update", "Delete", "Update")[n % 4]
        [id] = store.enqueue([activity(kind, key=key)])
        assert isinstance(id, Placed)
        print(json.dumps([key, int(id), kind, id.how]), flush=True)  # noqa: T201


if __name__ == "__main__":
    race(sys.argv[1], int(sys.argv[2]))
