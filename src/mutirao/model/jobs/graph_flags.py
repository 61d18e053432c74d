"""Flags in a job's metadata about its role in a graph.

A claim includes the metadata, so the worker knows without a query what to do for a step, and jobs
outside of graphs cost nothing: no column, no statement.
"""

from collections.abc import Mapping
from typing import Any

from mutirao.model.row_json import read_object

FLAGS_KEY = "mutirao"  # the key of the flags in the metadata
IS_STEP = "step"  # the job is a step
KEEPS_RESULT = "keeps"  # other steps use its result
TAKES_RESULTS = "takes"  # it uses the results of other steps


def flagged(metadata: Mapping[str, Any], *words: str) -> dict[str, Any]:
    """Return the metadata with these flags added."""
    return {**metadata, FLAGS_KEY: " ".join(words)}


def flags_of(metadata: str | None) -> frozenset[str]:
    """Return the flags in metadata, given as JSON that another program may have written.

    Raises:
        UnreadableRow: it cannot be read.
    """
    if metadata is None or FLAGS_KEY not in metadata:
        return frozenset()
    flags = read_object(metadata, "its metadata").get(FLAGS_KEY)
    return frozenset(flags.split()) if isinstance(flags, str) else frozenset()
