"""A process that enqueues keys as fast as it can, and says what it was told."""

from __future__ import annotations

import sys

from mutirao.model.keys.uniqueness import Placed
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.uniqueness import keyed


def race(url: str, mode: str, times: int) -> None:
    """Begin when told to, by a line; print an id and how it came to, for each enqueue."""
    store = SqlStore(url)
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    for n in range(times):
        [id] = store.enqueue([keyed(mode, key=f"k{n}")])
        assert isinstance(id, Placed)
        print(n, int(id), id.how, flush=True)  # noqa: T201


if __name__ == "__main__":
    race(sys.argv[1], sys.argv[2], int(sys.argv[3]))
