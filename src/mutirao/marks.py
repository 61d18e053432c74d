"""What a job's metadata say of its place in a graph.

The claim brings the metadata along, so a worker knows without asking what it has to do for a step,
and jobs that are in no graph pay nothing: no column, no statement.
"""

import json
from collections.abc import Mapping
from typing import Any

MARK = "mutirao"  # the name under which metadata have these words
STEP = "step"  # it is one
KEEPS = "keeps"  # others take its result
TAKES = "takes"  # it takes the results of others


def marked(metadata: Mapping[str, Any], *words: str) -> dict[str, Any]:
    """Return metadata that also say these words."""
    return {**metadata, MARK: " ".join(words)}


def marks(metadata: str | None) -> frozenset[str]:
    """Return the words in metadata, which are JSON; others than Mutirão may have written them."""
    if metadata is None or MARK not in metadata:
        return frozenset()
    return frozenset(str(json.loads(metadata).get(MARK, "")).split())
