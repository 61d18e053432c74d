"""Webhooks that were delivered: writes their attempts and completes their jobs, in one batch."""

from collections import Counter as Tally
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from mutirao.model.jobs.outcome import Settlement
from mutirao.model.limits.limits import PROVEN_ENOUGH
from mutirao.model.webhooks.webhook_names import USUAL_LIMIT_NAME
from mutirao.sql.drivers.steps import Execute, Query, Row, execute_many
from mutirao.sql.rules import settle
from mutirao.sql.rules.words import Words

if TYPE_CHECKING:
    from mutirao.model.webhooks.webhook_attempts import WebhookAttempt

COLUMNS = (
    *("job", "run", "endpoint", "host", "status", "milliseconds", "failure", "detail", "body"),
    *("truncated", "address", "request_headers"),
)
_PROVE = """
UPDATE mutirao_counter SET proven = proven + ? WHERE name = ? AND `key` = ? AND proven < ?
"""
_BREAKER = "SELECT 1 FROM mutirao_breaker b WHERE b.kind = ? AND "


def row_of(attempt: "WebhookAttempt") -> Row:
    """Return the values of `COLUMNS`."""
    headers = msgspec.json.encode(attempt.request_headers).decode()
    return (*(getattr(attempt, name) for name in COLUMNS[:-1]), headers)


def values_of(attempt: "WebhookAttempt") -> dict[str, object]:
    """Return the same by name."""
    return dict(zip(COLUMNS, row_of(attempt), strict=True))


def delivered(
    words: Words,
    attempts: Sequence["WebhookAttempt"],
    done: Sequence[Settlement],
    now: datetime | None,
) -> Query[set[int] | None]:
    """Write attempts that went well, and complete jobs. None: a breaker has to be judged first."""
    hosts, endpoints = ({each.host for each in attempts}, {each.endpoint for each in attempts})
    found = yield from settle.current(words, done, now, _breakers(words, endpoints, hosts))
    if found.more[0]:
        return None
    written = (*COLUMNS, "finished_at")
    rows = [(*row_of(attempt), found.moment) for attempt in attempts]
    yield execute_many(words.insert("mutirao_webhook_attempt", written), rows)
    settled = yield from settle.finish_current(words, found)
    proven = Tally(each.endpoint for each in attempts if each.job in settled)
    more = [(number, USUAL_LIMIT_NAME, id, PROVEN_ENOUGH) for id, number in sorted(proven.items())]
    if more:
        yield execute_many(_PROVE, more)
    return settled


def _breakers(words: Words, endpoints: set[str], hosts: set[str]) -> Execute:
    """Return the question for any breaker of these; it needs no lock."""
    asked, values = list[str](), list[object]()
    for kind, keys in (("endpoint", endpoints), ("host", hosts)):
        which = words.among("b.`key`", sorted(keys))
        asked.append(f"{_BREAKER}{which.sql}")
        values += [kind, *which.values]
    return Execute(f"{' UNION ALL '.join(asked)} LIMIT 1", tuple(values))
