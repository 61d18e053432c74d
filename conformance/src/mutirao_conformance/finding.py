"""Jobs found by what they were enqueued with: some arguments, a key, states."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from mutirao.model.jobs.job import JobState, NewJob
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    due,
    ids_of,
    join,
    put,
    put_finished,
    take_one,
)
from mutirao_conformance.uniqueness import keyed

VALUES: list[Any] = ["", "7", "é\n\"'\\", 7, 0, -1, 1.5, 10**15, True, False, None]


def with_args(**args: Any) -> NewJob:
    """Return a due job with these arguments."""
    return due(args=json.dumps(args))


async def found(store: Store, **which: Any) -> list[int]:
    """Return the ids of the jobs that match, oldest first."""
    return sorted(ids_of(await store.jobs(JobFilter(**which))))


class FindContract:
    """`Store.jobs` by arguments, key and states.

    `too_large`: numbers beyond those of a double. A database may refuse to keep them.
    """

    too_large: ClassVar[Sequence[str]] = ("1e999999", "1" * 400)

    async def test_by_each_value(self, store: Store) -> None:
        """A text is no number, true is not 1, null is not missing; each is found alone."""
        ids = await put(store, *(with_args(a=value, b=1) for value in VALUES), with_args(b=1))
        for id, value in zip(ids, VALUES, strict=False):
            assert await found(store, args={"a": value}) == [id]
        assert await found(store, args={"b": 1}) == ids
        assert await found(store, args={"a": "none such"}) == []
        assert await found(store, args={"c": None}) == []

    async def test_by_equal_numbers(self, store: Store) -> None:
        """However they are written, and though others are too large for any number."""
        written = ("1000", "1000.0", "1e3", "1E+3", "1000.000", *self.too_large)
        ids = await put(store, *(due(args=f'{{"n":{text}}}') for text in written))
        assert await found(store, args={"n": 1000}) == ids[:5]
        assert await found(store, args={"n": 1000.0}) == ids[:5]

    async def test_by_several_arguments(self, store: Store) -> None:
        """All that are given have to fit; what else the job has does not matter."""
        ids = await put(
            store, with_args(a=1, b="x"), with_args(a=1, b="y"), with_args(a=1, b="x", c=[1])
        )
        assert await found(store, args={"a": 1, "b": "x"}) == [ids[0], ids[2]]
        assert await found(store, args={"c": 1}) == []
        assert await found(store, args={}) == ids

    async def test_by_arguments_with_any_name(self, store: Store) -> None:
        """Also what a path would take for something else."""
        names = ["a.b", "a b", '"a"', "$", "a'b", "%s", "á"]
        ids = await put(store, *(with_args(**{name: 1}) for name in names))
        for id, name in zip(ids, names, strict=True):
            assert await found(store, args={name: 1}) == [id]

    async def test_by_parts_of_arguments(self, store: Store) -> None:
        """Dots lead into objects, at any depth; what is no object has no parts."""
        orders: list[Any] = [
            *({"id": value} for value in VALUES),
            {"id": {"id": 7}}, [{"id": 7}], '{"id":7}', 7, {"id": [7]}, {"ID": 7}, None,
        ]  # fmt: skip
        ids = await put(store, *(with_args(order=order) for order in orders), with_args(id=7))
        for id, value in zip(ids, VALUES, strict=False):
            assert await found(store, args={"order.id": value}) == [id]
        assert await found(store, args={"order.id.id": 7}) == [ids[len(VALUES)]]
        assert await found(store, args={"order.id.id.id": 7}) == []
        deep = with_args(a={"é b": {'"c"': {"%s": "x"}}}, order={"id": 8})
        ids = await put(store, deep, with_args(**{"order.id": 8, "a": {"é b.": 1}}))
        assert await found(store, args={'a.é b."c".%s': "x", "order.id": 8}) == [ids[0]]
        assert await found(store, args={"order.id": 8}) == ids  # also as an argument's own name
        assert await found(store, args={"a.é b.": 1}) == []  # which a part's own name has not
        for name in (".", "a.", ".a", "a..b"):
            assert await found(store, args={name: 1}) == []

    @pytest.mark.parametrize("escaped", ["\\u0000", "\\ud83d", "\\ude00\\ud83d"])
    async def test_beside_what_is_no_text(self, store: Store, escaped: str) -> None:
        """A job whose text has half a surrogate pair, or NUL, does not hide the others."""
        await put(store, due(args=f'{{"a":1,"note":"{escaped}"}}'))
        ids = await put(store, due(args='{"a":1,"note":"\\ud83d\\ude00"}'), with_args(a=1))
        assert (await found(store, args={"a": 1}))[-2:] == ids
        assert await found(store, args={"note": "\U0001f600"}) == [ids[0]]
        await put(store, due(args=f'{{"a":{{"b":1}},"note":"{escaped}"}}'))
        ids = await put(store, with_args(a={"b": 1, "note": "\\u0000"}))
        assert (await found(store, args={"a.b": 1}))[-1:] == ids

    async def test_by_key(self, store: Store) -> None:
        """A unique one or a label, of live jobs and finished ones."""
        worker = await join(store)
        ids = await put_finished(store, worker, keyed())
        ids += await put(store, keyed(), due(key="k", task="other"), due(key="l"), due())
        assert await found(store, key="k") == sorted(ids[:3])
        assert await found(store, key="k", task="other") == [ids[2]]
        assert await found(store, key="m") == []

    async def test_by_whose_it_is(self, store: Store) -> None:
        """The tenant and the group; live jobs and finished ones; no argument of that name."""
        worker = await join(store)
        ids = await put_finished(store, worker, due(tenant="a", group="x"))
        ids += await put(
            store, due(tenant="a"), keyed(tenant="b", group="x"), with_args(tenant="a"), due()
        )
        assert await found(store, tenant="a") == ids[:2]
        assert await found(store, group="x") == [ids[0], ids[2]]
        assert await found(store, tenant="a", group="x") == ids[:1]
        assert await found(store, tenant="A") == []
        assert await store.cancel(JobFilter(tenant="a"), now=NOW) == [ids[1]]

    async def test_by_several_queues(self, store: Store) -> None:
        """Any of those that are chosen; none is not all of them."""
        ids = await put(store, due(queue="a"), due(queue="b"), due(queue="c"))
        assert await found(store, queues=("a", "c")) == [ids[0], ids[2]]
        assert await found(store, queues=("a",)) == ids[:1]
        assert await found(store, queues=()) == []

    async def test_by_several_states(self, store: Store) -> None:
        """Any of those that are chosen; none is not all of them."""
        worker = await join(store)
        ids = await put_finished(store, worker, due())
        ids += await put(store, due())
        await take_one(store, worker)
        ids += await put(store, due(), due(run_at=FAR_AHEAD))
        succeeded, running, ready, scheduled = ids
        chosen = (JobState.SUCCEEDED, JobState.READY)
        assert await found(store, states=chosen) == [succeeded, ready]
        assert await found(store, states=(JobState.RUNNING, JobState.DEAD)) == [running]
        assert await found(store, states=tuple(JobState)) == ids
        assert await found(store, states=()) == []
        waiting = JobFilter(states=(JobState.READY, JobState.SCHEDULED))
        assert sorted(await store.cancel(waiting, now=NOW)) == [ready, scheduled]
        again = await store.redrive(JobFilter(states=(JobState.CANCELLED, JobState.READY)))
        assert len(again) == 2
