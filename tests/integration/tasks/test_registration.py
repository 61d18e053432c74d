"""What can be a task, and what becomes of a function that is one."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from mutirao import Job, Mutirao, Retry, Supersede
from mutirao.errors import ConfigurationError, InvalidJob, InvalidTask, UnknownTask
from mutirao.model.findings import Level
from mutirao.testing import capture, drain, inline

if TYPE_CHECKING:
    from mutirao import NewJob


@pytest.fixture
def idle() -> Mutirao:
    """An application whose database is never opened."""
    return Mutirao("sqlite:///never-opened.db")


async def send(order_id: int) -> None:
    """Send a receipt."""


def generator() -> Iterator[int]:
    """Yield."""
    yield 1


async def async_generator() -> AsyncIterator[int]:
    """Yield."""
    yield 1


def second(order_id: int, job: Job) -> None:
    """Want the job in second place."""


def twice(job: Job, other: Job) -> None:
    """Want it twice."""


def by_name(*, job: Job) -> None:
    """Want it by name only."""


def variable(*jobs: Job) -> None:
    """Want several."""


def only_for_checkers(job: NewJob) -> None:
    """Have an annotation that is not there at run time."""


def no_attribute(job: asyncio.Nowhere) -> None:  # type: ignore[name-defined]
    """Have one that is not in its module."""


def no_expression(number: int) -> None:
    """Have one that cannot be read."""


no_expression.__annotations__["number"] = "1 +"


def union(callback: asyncio.Queue[int] | int | list[asyncio.Event | dict[str, int]]) -> None:
    """Have an annotation that JSON cannot carry."""


def several_queues(*callbacks: asyncio.Queue[int]) -> None:
    """Have one that goes by place, so that nothing provides it."""


def any_names(callback: asyncio.Queue[int], **numbers: int) -> None:
    """Have one beside any names."""


def only_provided(callback: asyncio.Queue[int]) -> None:
    """Have one that a factory may provide."""


def gives_a_queue() -> asyncio.Queue[int]:
    """Return what JSON cannot carry."""
    raise AssertionError


class TestDecorating:
    """`@app.task`, with and without options."""

    def test_the_function_is_still_one(self, idle: Mutirao) -> None:
        """Calling a task calls the function, here and now."""

        @idle.task
        def double(n: int) -> int:
            """Twice as much."""
            return 2 * n

        assert double(4) == 8
        assert (double.__name__, double.__doc__, double.__module__) == (
            "double",
            "Twice as much.",
            __name__,
        )
        assert repr(double).startswith("<Task 'double' of ")

    async def test_a_coroutine_function_is_still_one(self, idle: Mutirao) -> None:
        """Its call is awaited."""

        @idle.task
        async def double(n: int) -> int:
            return 2 * n

        assert await double(4) == 8

    def test_a_task_that_takes_its_job(self, idle: Mutirao) -> None:
        """Has no job to take here; the error says what to call."""

        @idle.task
        def double(job: Job, n: int) -> int:
            return 2 * n

        with pytest.raises(TypeError, match=r"double\.function\(job, …\)"):
            double(4)
        anything: Any = None
        assert double.function(anything, 4) == 8

    def test_by_name(self, idle: Mutirao) -> None:
        """The function's, or the one given."""
        assert idle.task(send).name == "send"
        assert idle.task(name="shop.send")(send).name == "shop.send"
        assert list(idle.tasks) == ["send", "shop.send"]
        assert idle.task_named("shop.send").function is send

    def test_an_unknown_name(self, idle: Mutirao) -> None:
        """Is told with those there are."""
        with pytest.raises(UnknownTask, match=r"no task 'sned' .* there are: none at all"):
            idle.task_named("sned")
        idle.task(send)
        with pytest.raises(UnknownTask, match="there are: send"):
            idle.task_named("sned")

    def test_options(self, idle: Mutirao) -> None:
        """Become those of every job, unless the call has its own."""
        task = idle.task(queue="mail", priority=3, tags=["a"], timeout=5, max_attempts=2)(send)
        job = task.job(7)
        assert (job.queue, job.priority, job.tags) == ("mail", 3, ("a",))
        assert job.args == '{"order_id":7}'
        assert (job.timeout, job.max_attempts) == (None, None)
        other = task.using(queue="q", priority=0, tags=["b"], timeout=1, max_attempts=1).job(7)
        assert (other.queue, other.priority, other.tags) == ("q", 0, ("a", "b"))
        assert (other.timeout, other.max_attempts) == (1.0, 1)
        assert (task.terms().timeout, task.terms().retry.max_attempts) == (5.0, 2)


class TestRefusing:
    """What cannot be a task is refused where it is defined."""

    def test_two_tasks_with_one_name(self, idle: Mutirao) -> None:
        """The error names both, and what to do."""
        idle.task(send)
        with pytest.raises(InvalidTask) as refused:
            idle.task(name="send")(second)
        for words in ("two tasks are called 'send'", ".send", ".second", "@app.task(name=…)"):
            assert words in str(refused.value)

    def test_a_name_that_an_on_dead_handler_has(self, idle: Mutirao) -> None:
        """They are tasks too."""
        idle.task(send).on_dead(lambda dead: None)
        with pytest.raises(InvalidTask, match=r"two tasks are called 'send\.on_dead'"):
            idle.task(name="send.on_dead")(second)

    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            ("mail", "'mail', which cannot be called"),
            (generator, "generator function, whose body nobody would run"),
            (async_generator, "generator function, whose body nobody would run"),
            (functools.partial(send, 7), "has no name; give it one: app.task"),
        ],
    )
    def test_what_is_no_function(self, idle: Mutirao, wrong: Any, words: str) -> None:
        """Texts, generators, things without a name."""
        with pytest.raises(InvalidTask, match=words):
            idle.task(wrong).signature.check()
        assert dict(idle.tasks) == {}

    def test_a_task_of_a_task(self, idle: Mutirao) -> None:
        """Decorated twice, or a task as an on_dead handler."""
        task, other = idle.task(send), idle.task(name="other")(send)
        wrong: Any = task
        with pytest.raises(InvalidTask, match="put the decorators on different functions"):
            idle.task(name="again")(wrong)
        with pytest.raises(InvalidTask, match="put the decorators on different functions"):
            other.on_dead(wrong)

    def test_a_coroutine_in_a_process(self, idle: Mutirao) -> None:
        """A process runs a plain function."""
        with pytest.raises(InvalidTask, match="drop `async` or process=True"):
            idle.task(process=True)(send)

    def test_a_lambda_in_a_process(self, idle: Mutirao) -> None:
        """Another process could not find it: refused where it is written, not by each attempt."""
        with pytest.raises(InvalidTask, match="'ship' is a lambda and process=True"):
            idle.task(process=True, name="ship")(lambda order: None)

    @pytest.mark.parametrize("wrong", [second, twice, by_name, variable])
    def test_a_job_in_the_wrong_place(self, idle: Mutirao, wrong: Any) -> None:
        """It is injected into the first parameter."""
        with pytest.raises(InvalidTask, match="the first positional parameter"):
            idle.task(wrong)
        assert dict(idle.tasks) == {}

    @pytest.mark.parametrize("wrong", [only_for_checkers, no_attribute])
    def test_an_annotation_that_is_not_there(self, idle: Mutirao, wrong: Any) -> None:
        """The error says where to import it; nothing will define it, as the module is whole."""
        with pytest.raises(InvalidTask, match="not only under TYPE_CHECKING"):
            idle.task(wrong)
        assert dict(idle.tasks) == {}

    def test_an_annotation_that_is_no_expression(self, idle: Mutirao) -> None:
        """It cannot be read."""
        with pytest.raises(InvalidTask, match="cannot be read"):
            idle.task(no_expression)

    def test_one_that_is_no_expression_behind_one_that_may_come(self, idle: Mutirao) -> None:
        """It cannot be read, whatever is defined further down; the error is the same."""
        later: Any = ModuleType("later")
        later.app = idle
        for wrong in ("1 +", "int + int"):
            with pytest.raises(InvalidTask, match="'wrong' cannot be read"):
                exec(  # noqa: S102
                    f"@app.task\ndef wrong(a: 'Missing', b: {wrong!r}): ...", vars(later)
                )
        assert dict(idle.tasks) == {}

    @pytest.mark.parametrize("wrong", [union, several_queues, any_names])
    def test_an_annotation_that_json_cannot_carry(self, idle: Mutirao, wrong: Any) -> None:
        """Told by name, where no factory could provide it."""
        with pytest.raises(InvalidTask, match=r"the parameter 'callbacks?' has an annotation"):
            idle.task(wrong)
        with pytest.raises(InvalidTask, match="the parameter 'callback' has an annotation"):
            idle.task(supersede=Supersede(by="callback", rules={}))(only_provided)
        assert dict(idle.tasks) == {}

    def test_a_result_that_json_cannot_carry(self, idle: Mutirao) -> None:
        """It matters where results are kept."""
        idle.task(gives_a_queue)
        with pytest.raises(InvalidTask, match="the result, which is kept, has an annotation"):
            idle.task(name="kept", keep_result=True)(gives_a_queue)

    @pytest.mark.parametrize(
        ("options", "error", "words"),
        [
            ({"queue": ""}, InvalidJob, "queue name has 0 characters"),
            ({"priority": 10**6}, InvalidJob, "priority is 1000000"),
            ({"tags": "shop"}, InvalidJob, "tags are 'shop'"),
            ({"timeout": "30s"}, InvalidJob, "timeout is '30s'"),
            ({"name": "n" * 201}, InvalidJob, "task name has 201 characters"),
            ({"name": "a\x00"}, InvalidJob, "NUL byte"),
            ({"retry": 3}, InvalidTask, "retry is 3; give a policy"),
            ({"retry": Retry}, InvalidTask, "give a policy"),
            ({"max_attempts": 0}, ValueError, "max_attempts is 0"),
        ],
    )
    def test_options_out_of_range(
        self, idle: Mutirao, options: dict[str, Any], error: type[Exception], words: str
    ) -> None:
        """As for a call; the task is not registered."""
        with pytest.raises(error, match=words):
            idle.task(**options)(send)
        assert dict(idle.tasks) == {}


Imported = Callable[..., Mutirao]
LATER = """
from __future__ import annotations
import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from mutirao import Job, Limit, Mutirao

if TYPE_CHECKING:
    from nowhere import Unknown

app = Mutirao(url)

@app.task(limit=Limit(1, by="order"))
def ahead(order: Order) -> None: ...

@app.task
def deeper(basket: Basket) -> None: ...

@app.task
def given(queue: asyncio.Queue[int], n: int = 0) -> None: ...

@dataclass
class Basket:
    order: Order
"""


@pytest.fixture
def imported(migrated_sqlite_url: str) -> Iterator[Imported]:
    """What imports a module with the tasks above and some more; it returns the application."""
    module: Any = ModuleType("later")
    module.url = migrated_sqlite_url

    def run(more: str = "") -> Mutirao:
        exec(LATER + more, vars(module))  # noqa: S102
        app: Mutirao = module.app
        return app

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "later", module)
        yield run
    module.app.close()


class TestLeftOpen:
    """What a factory or a name may still decide is told by what uses the task first."""

    def test_what_comes_later(self, imported: Imported) -> None:
        """A name further down, in a field too; a factory."""
        app = imported("assert len(app.undecided) == 3\nOrder = str")
        app.provide(_queue)
        app.decide()
        assert app.undecided == {}
        assert app.task_named("given").job(n=7).args == '{"n":7}'
        assert app.task_named("ahead").job("x").args == '{"order":"x"}'

    @pytest.mark.parametrize(
        "use",
        [
            lambda app: capture(app).__enter__(),
            lambda app: inline(app).__enter__(),
            drain,
            lambda app: app.worker().start(),
        ],
        ids=["capture", "inline", "drain", "worker"],
    )
    def test_all_is_told_together(self, imported: Imported, use: Any) -> None:
        """By tests, and by a worker, which is not registered."""
        app = imported()
        with pytest.raises(InvalidTask) as refused:
            use(app)
        for words in ("3 tasks cannot", "'ahead' has", "'deeper' has", "'given': the parameter"):
            assert words in str(refused.value)
        assert app._portal.call(app.store.workers) == []

    def test_an_enqueue_asks_for_its_own_task_only(self, imported: Imported) -> None:
        """A process that lacks what the others name enqueues all the same."""
        app = imported()
        fine = app.task(name="fine")(send)
        assert fine.enqueue(7).id == 1
        assert app.enqueue_many([fine.job(8)]) == [2]
        app.schedules.put("nightly", fine.job(9), "30 3 * * *")
        given = app.task_named("given")
        with pytest.raises(InvalidTask, match=r"^task 'given': the parameter 'queue'"):
            given.enqueue(n=7)
        assert app.undecided.keys() == {"ahead", "deeper", "given"}
        app.provide(_queue)
        assert given.enqueue(n=7).id == 3
        assert app.undecided.keys() == {"ahead", "deeper"}

    def test_a_job_made_at_import(self, imported: Imported) -> None:
        """Names that others use may be defined further down."""
        more = "@app.task\ndef plain(n: int) -> None: ...\nplain.job(n=1)\nOrder = str"
        assert imported(more).undecided.keys() == {"ahead", "deeper", "given"}

    def test_doctor(self, imported: Imported) -> None:
        """It tells each, beside the state of the database."""
        found = imported().examine()
        problems = [each.found for each in found if each.level is Level.PROBLEM]
        assert [each.split("'")[1] for each in problems] == ["ahead", "deeper", "given"]
        assert any(each.about == "schema" for each in found)

    def test_a_job_that_is_not_first(self, imported: Imported) -> None:
        """It is certain, whatever the others are."""
        with pytest.raises(InvalidTask, match="the first positional parameter"):
            imported("\n@app.task\ndef late(order: Order, job: Job) -> None: ...\n")


def _queue() -> asyncio.Queue[int]:
    return asyncio.Queue()


async def test_a_process_handler_that_a_child_would_not_find(pg_app: Mutirao) -> None:
    """It has to stand at module level, under its own name."""

    @pg_app.task(process=True)
    def local() -> None:
        pass

    with pytest.raises(ConfigurationError, match="define it at module level"):
        async with pg_app.worker():
            raise AssertionError
    assert await pg_app.store.workers() == []
