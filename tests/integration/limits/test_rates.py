"""Rates on PostgreSQL, where what mends them meets a claim."""

from __future__ import annotations

import psycopg

from mutirao import Mutirao
from mutirao_conformance.kit import at, due, ids_of, join, put, take
from mutirao_conformance.limits import limited

SENT_AHEAD = """
SELECT id FROM mutirao_live WHERE worker IS NULL AND run_at < '9000-01-01' FOR UPDATE
"""


async def test_a_claim_has_the_job_that_was_sent_ahead(pg_app: Mutirao, pg_url: str) -> None:
    """A mend that meets it there leaves it to the claim to send the next one ahead."""
    store = pg_app.store
    await limited(store, 1, per=10)
    ids = await put(store, *(due() for _ in range(3)))
    worker = await join(store)
    assert ids_of(await take(store, worker)) == ids[:1]
    url = pg_url.replace("+psycopg", "")
    with psycopg.connect(url) as claiming, psycopg.connect(url, autocommit=True) as mending:
        assert claiming.execute(SENT_AHEAD).fetchall() == [(ids[1],)]
        mending.execute("SELECT mutirao_mend(%s)", (at(10.1),))
    assert ids_of(await take(store, worker, now=at(10.1))) == ids[1:2]
    heads = [head for head in await store.lanes(None, now=at(11)) if head.due_in < 100]
    assert [round(head.due_in) for head in heads] == [9]
