"""Jobs found by the terms of a filter's text: on every database the same jobs."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mutirao.model.filters.filter import parse
from mutirao.model.jobs.change import Change
from mutirao.model.jobs.job import JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import FAR_AHEAD, NOW, due, ended, ids_of, join, put, take_one

# What has a meaning in a pattern of some database, and what has it nowhere.
ODD = ("a%b", "a_b", "a!b", "a[b]", "a?b", "a\\b", "A*B", "a'b", "é%", "a.b", "a b", "%s", ":a")


def wanted(text: str, **rest: Any) -> JobFilter:
    """Return what a text asks of the store; ages are counted back from the real time."""
    return parse(text).at(datetime.now(UTC), limit=None, **rest)


async def found(store: Store, text: str) -> list[int]:
    """Return the ids of the jobs that a text finds, oldest first."""
    return sorted(ids_of(await store.jobs(wanted(text))))


def quoted(text: str) -> str:
    """Return a text in the quotes of the language."""
    return json.dumps(text, ensure_ascii=False)


class FilterContract:
    """`Store.jobs`, and the commands, by the terms of a filter."""

    @pytest.mark.parametrize("subject", ["task", "queue", "tenant", "group", "key", "tag"])
    async def test_texts(self, store: Store, subject: str) -> None:
        """Exactly, as a pattern, one of several, and none of them; letters are themselves."""
        names = ("send_mail", "send_sms", "Send_mail", "resend", "sendXmail")
        ids = await put(store, *(_with(subject, name) for name in names), due(task="other"))
        mail, sms, capital, resend, x, other = ids
        # The last has a task and a queue, too, and nothing else.
        named = ids if subject in ("task", "queue") else ids[:-1]
        assert await found(store, f"{subject}:send_mail") == [mail]
        assert await found(store, f"{subject}:send_*") == [mail, sms]
        assert await found(store, f"{subject}:*send*") == [mail, sms, resend, x]
        assert await found(store, f"{subject}:*_mail,resend") == [mail, capital, resend]
        assert await found(store, f"{subject}:send_mail,send_sms") == [mail, sms]
        assert await found(store, f'{subject}:"send_*"') == []
        assert await found(store, f"-{subject}:send_* -{subject}:Send*,resend") == [x, other]
        assert await found(store, f"{subject}:*") == named
        assert await found(store, f"{subject}:send_mail {subject}:send_sms") == []

    async def test_what_has_a_meaning_in_patterns(self, store: Store) -> None:
        """It is itself: exactly, within a pattern, and negated."""
        ids = await put(store, *(due(task=name, tags=(name,)) for name in ODD))
        for id, name in zip(ids, ODD, strict=True):
            for subject in ("task", "tag"):
                assert await found(store, f"{subject}:{quoted(name)}") == [id]
                if " " not in name and "*" not in name:
                    assert await found(store, f"{subject}:{name}*") == [id]
                    assert await found(store, f"-{subject}:*{name}") == [
                        each for each in ids if each != id
                    ]

    async def test_states(self, store: Store) -> None:
        """One of several, none of several, and what is left by both."""
        worker = await join(store)
        [succeeded] = await _ended(store, worker, OutcomeKind.SUCCEEDED)
        [dead] = await _ended(store, worker, OutcomeKind.DEAD)
        ready, scheduled = await put(store, due(), due(run_at=FAR_AHEAD))
        assert await found(store, "state:dead,ready") == [dead, ready]
        assert await found(store, "-state:succeeded,dead") == [ready, scheduled]
        assert await found(store, "state:dead,ready -state:ready") == [dead]
        assert await found(store, "state:dead state:ready") == []
        assert await found(store, "-state:running") == [succeeded, dead, ready, scheduled]
        both = JobFilter(state=JobState.DEAD, terms=wanted("-task:x").terms)
        assert ids_of(await store.jobs(both)) == [dead]

    async def test_numbers(self, store: Store) -> None:
        """Exactly, ranges, comparisons; of what has no value, only the negated ones."""
        ids = await put(store, *(due(priority=number, args="{}") for number in (-2, 0, 3, 3)))
        first, second, third, fourth = ids
        assert await found(store, f"id:{second}..{third}") == [second, third]
        assert await found(store, f"id:{third}..") == [third, fourth]
        assert await found(store, f"id:..{first},{fourth}") == [first, fourth]
        assert await found(store, f"{first},{third}") == [first, third]
        assert await found(store, f"-id:{second}..{third}") == [first, fourth]
        assert await found(store, "priority:>=0") == [second, third, fourth]
        assert await found(store, "priority:<0,3") == [first, third, fourth]
        assert await found(store, "priority:9000000000000000000") == []
        assert await found(store, "priority:>-9000000000000000000") == ids
        assert await found(store, "attempt:>3") == []
        assert await found(store, "attempt:0") == ids
        assert await found(store, "worker:>0") == []
        assert await found(store, "-worker:>0") == ids
        worker = await join(store)
        claim = await take_one_of(store, worker)
        assert await found(store, f"worker:{worker}") == [claim]
        assert await found(store, "attempt:>0") == [claim]
        assert await found(store, "graph:1..9") == []
        assert await found(store, "-graph:1") == ids

    async def test_arguments(self, store: Store) -> None:
        """A text is no number; of several values one; negated also where there is none."""
        args: list[dict[str, Any]] = [
            {"n": 7}, {"n": "7"}, {"n": None}, {"n": True}, {"o": {"id": 7}}, {},
        ]  # fmt: skip
        ids = await put(store, *(due(args=json.dumps(each)) for each in args))
        assert await found(store, "arg.n:7") == ids[:1]
        assert await found(store, 'arg.n:"7"') == ids[1:2]
        assert await found(store, "arg.n:null,true") == ids[2:4]
        assert await found(store, "arg.o.id:7") == ids[4:5]
        assert await found(store, "-arg.n:7") == ids[1:]
        assert await found(store, "-arg.n:7,null") == [ids[1], *ids[3:]]
        assert await found(store, 'arg."n":7 arg.n:7') == ids[:1]

    async def test_errors(self, store: Store) -> None:
        """The class with its module or without; the text by how it begins, or as a pattern."""
        worker = await join(store)
        kind = OutcomeKind.DEAD
        [busy] = await _ended(store, worker, kind, "shop.Busy", "shop 7% full\nTraceback")
        [other] = await _ended(store, worker, kind, "shop.NotBusy", "shop 7x full")
        [plain] = await _ended(store, worker, kind, "Busy", "Shop")
        [none] = await put(store, due())
        assert await found(store, "error:Busy") == [busy, plain]
        assert await found(store, "error:shop.Busy") == [busy]
        assert await found(store, "error:shop.*") == [busy, other]
        assert await found(store, "error:*Busy") == [busy, other, plain]
        assert await found(store, "error:Bus*") == [busy, plain]
        assert await found(store, "-error:Busy") == [other, none]
        assert await found(store, "error:*") == [busy, other, plain]
        assert await found(store, 'message:"shop 7% f"') == [busy]
        assert await found(store, "message:*full") == [busy, other]
        assert await found(store, "message:*7%*") == [busy]
        assert await found(store, "-message:shop*") == [plain, none]

    async def test_times(self, store: Store) -> None:
        """By when it was enqueued: `after` and `before` by the moment, the others by its age."""
        ids = await put(store, due())
        assert await found(store, "newer:1h after:2024-01-01 before:2100-01-01") == ids
        assert await found(store, "older:1h") == []
        assert await found(store, "after:2100-01-01") == []
        record = await store.job(ids[0])
        moment = record.enqueued_at.isoformat().replace("+00:00", "Z")
        assert await found(store, f"after:{moment}") == ids
        assert await found(store, f"before:{moment}") == []

    async def test_commands_by_terms(self, store: Store) -> None:
        """Cancel, run now, change and redrive take the same terms; a limit holds as always."""
        ids = await put(
            store, *(due(task=f"send_{n}", run_at=FAR_AHEAD, queue="a") for n in range(4))
        )
        assert await store.run_now(wanted("task:send_0 queue:a")) == ids[:1]
        assert await store.change(wanted("-task:send_0"), Change(priority=9)) == ids[1:]
        assert await found(store, "priority:9") == ids[1:]
        assert await store.cancel(wanted(f"task:send_* priority:9 id:..{ids[2]}")) == ids[1:3]
        assert await store.redrive(wanted("task:send_*")) == []  # only dead ones, without a state
        again = await store.redrive(wanted("state:cancelled"))
        assert len(again) == 2
        assert await store.redrive(wanted("state:cancelled task:send_*")) == []
        assert len(await store.redrive(wanted(f"id:{ids[1]}"))) == 1  # named, so once more


def _with(subject: str, name: str) -> NewJob:
    if subject == "tag":
        return due(tags=("first", name))
    return due(**{subject: name})


async def take_one_of(store: Store, worker: int) -> int:
    """Claim the most urgent job; return its id."""
    [first, *_] = await store.lanes(None, now=NOW)
    [claim] = await store.claim(worker, [first.lane], 1, now=NOW)
    return claim.id


async def _ended(
    store: Store,
    worker: int,
    kind: OutcomeKind,
    error_type: str | None = None,
    error: str | None = None,
) -> list[int]:
    """Enqueue a job and let it end so."""
    ids = await put(store, due())
    claim = await take_one(store, worker)
    done = ended(claim, kind, error_type=error_type, error=error)
    assert await store.settle(worker, [done], now=NOW) == {*ids}
    return ids
