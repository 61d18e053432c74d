"""What need not be sent any more, and what a host becomes: pure rules."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mutirao.model.federation.activities import RULE, Said, digest_of, key_of, repeats, subject_of
from mutirao.model.federation.hosts import (
    LONGEST_WAIT,
    DeliveryVerdict,
    Host,
    HostState,
    answers,
    asks_for_time,
    fails,
    is_heard_from,
    limit_of,
    probe_is_due,
    verdict,
)
from mutirao.model.keys.supersede import Older, decide

NOW = datetime(2026, 11, 26, tzinfo=UTC)
ACTOR = "https://a.example/actor"


def args_of(kind: str, content: str = "a", **changed: Any) -> dict[str, Any]:
    """Return the arguments of a delivery; `activity` changes what is in its activity."""
    note: object = {"id": "n", "content": content}
    if kind == "Undo":
        note = {"id": "f", "type": "Follow", "object": "n"}
    activity = {"id": kind[0].lower(), "type": kind, "actor": ACTOR, "object": note}
    activity |= changed.pop("activity", {})
    usual = {"inbox": "i", "object": "n", "target": "", "sender": "s", "kind": kind}
    return {**usual, "activity": activity, **changed}


def left(older: dict[str, Any], newer: dict[str, Any], untouched: bool = True) -> str:
    """Return what becomes of two deliveries."""
    before = Older(1, "t", json.dumps(older), untouched)
    decision = decide(RULE, "t", json.dumps(newer), before)
    if decision.args is None:
        return decision.how
    made = json.loads(decision.args)
    return f"{decision.how} {made['kind']} {made['activity']['id']} {made['activity']['type']}"


@pytest.mark.parametrize(
    ("older", "newer", "becomes"),
    [
        (args_of("Create"), args_of("Update", "b"), "merged Create c Create"),
        (args_of("Create"), args_of("Delete"), "superseded"),
        (args_of("Update"), args_of("Update", "b"), "merged Update u Update"),
        (args_of("Update"), args_of("Delete"), "replaced"),
        (args_of("Delete"), args_of("Delete"), "replaced"),
        (args_of("Delete"), args_of("Create"), "follows"),
        (args_of("Add"), args_of("Remove"), "superseded"),
        (args_of("Remove"), args_of("Add"), "superseded"),
        (args_of("Add", target="x"), args_of("Remove", target="y"), "follows"),
        (args_of("Follow"), args_of("Undo"), "superseded"),
        (args_of("Follow", activity={"id": "g"}), args_of("Undo"), "follows"),
        (args_of("Announce"), args_of("Announce"), "follows"),
        (args_of("Create"), args_of("Update", inbox="j"), "follows"),
        (args_of("Create"), args_of("Delete", sender="t"), "follows"),
        (args_of("Create"), args_of("Delete", activity={"actor": "x"}), "follows"),
        (args_of("Create"), args_of("Update", activity={"object": "n"}), "follows"),
    ],
)
def test_the_table(older: dict[str, Any], newer: dict[str, Any], becomes: str) -> None:
    """Of two that nobody has tried; of those that were tried both are sent, in order."""
    assert left(older, newer) == becomes
    assert left(older, newer, untouched=False) == "follows"


def test_a_merged_create_has_the_newer_object() -> None:
    """And the id and time of the older one."""
    older = args_of("Create", activity={"published": "p"})
    made = RULE.merged(older, args_of("Update", "b", activity={"to": ["x"]}))["activity"]
    assert (made["id"], made["published"], made["to"]) == ("c", "p", ["x"])
    assert made["object"]["content"] == "b"


def test_what_is_repeated() -> None:
    """Whatever the order of members; a Create, and what follows another kind, is not."""
    one, other = {"object": {"a": 1, "b": 2}}, {"object": {"b": 2, "a": 1}}
    last = Said("Create", digest_of(one), 1)
    assert repeats("Update", digest_of(other), last)
    assert not repeats("Create", digest_of(other), last)
    assert not repeats("Update", digest_of({"object": {}}), last)
    assert not repeats("Update", digest_of(one), None)
    assert not repeats("Remove", digest_of(one), last._replace(kind="Add"))


def test_subjects_and_keys() -> None:
    """The object of what is undone; a long key is short, and its own."""
    assert subject_of(args_of("Undo")["activity"]).object == "n"
    assert subject_of({"type": ["Arrive"], "actor": {"id": ACTOR}}).object == ACTOR
    long = ["h", "x" * 300]
    assert key_of("h", "o") == "h o"
    assert len(key_of(*long)) == 200
    assert key_of(*long) != key_of("h", "x" * 301)


def test_the_life_of_a_host() -> None:
    """It is waited for longer and longer, given up after 30 days, and tried when it is heard."""
    host = Host(name="h")
    assert limit_of(host) is None
    waits = []
    for n in range(15):
        at = NOW + timedelta(hours=6 * n)
        host = replace(fails(host, at, host.changed_at), changed_at=at)
        assert host.next_probe
        waits.append((host.next_probe - at).total_seconds())
        assert probe_is_due(host, at) == host
    assert waits[:3] == [10, 20, 40]
    assert waits[-1] == LONGEST_WAIT
    assert fails(host, NOW, None) == host  # it began before
    probed = probe_is_due(host, NOW + timedelta(days=9))
    assert (host.most, probed.most) == (0, 1)
    assert answers(probed, probed.changed_at).state is HostState.UP
    gone = fails(host, NOW + timedelta(days=30), host.changed_at)
    assert (gone.state, gone.most) == (HostState.UNAVAILABLE, None)
    heard = is_heard_from(gone)
    assert (heard.state, heard.most) == (HostState.FAILING, 1)
    busy = asks_for_time(Host(name="h", concurrency=2), NOW, None, 30)
    assert (busy.state, busy.most, busy.failures) == (HostState.UP, 0, 0)
    assert probe_is_due(busy, NOW + timedelta(seconds=30)).most == 2
    assert fails(Host(name="h"), NOW, None, after=60).next_probe == NOW + timedelta(seconds=60)


def test_verdicts() -> None:
    """Of each status."""
    said: dict[DeliveryVerdict, list[int | None]] = {
        DeliveryVerdict.ARRIVED: [200, 202, 204],
        DeliveryVerdict.GONE: [404, 410],
        DeliveryVerdict.REFUSED: [301, 400, 405, 413, 422],
        DeliveryVerdict.AGAIN: [401, 403, 418],
        DeliveryVerdict.BUSY: [429],
        DeliveryVerdict.BROKEN: [500, 501, 599],
        DeliveryVerdict.DOWN: [408, 425, 502, 503, 504, None],
    }
    for what, statuses in said.items():
        assert {verdict(status) for status in statuses} == {what}
    assert verdict(None, unsafe=True) is DeliveryVerdict.REFUSED
