"""Jobs that end their workers, and the innocent ones beside them; connections that only break."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from mutirao import Job, Mutirao
from mutirao.errors import TransportError
from mutirao.model.brokers.message import Again, Message, Settling
from mutirao.ports import Transport
from mutirao.transports import memory
from mutirao.transports.memory import MemoryTransport
from mutirao.transports.rabbitmq import RabbitMQ
from mutirao.transports.rabbitmq.tokens import RabbitTokens
from mutirao.transports.sqs import SQS
from tests.support.engine import MAX_LOST_RUNS, broker_consumer
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitServer, delete_queue, emptied
from tests.support.sqs import USUAL
from tests.support.waiting import DEADLINE, until

# Runs a worker, again each time that one ends, until all is done; prints how often one ended. They
# are forks: whatever is imported is so once.
PROGRAM = """
import asyncio, os, pathlib
from mutirao import Mutirao
from mutirao.transports.BROKER

app = Mutirao("sqlite:///none.db", transports={"mail": broker})
HERE = pathlib.Path(__file__).parent

@app.task(queue="mail", max_attempts=1)
async def bad() -> None:
    with (HERE / "bad").open("a") as file:
        file.write("x")
    os._exit(1)

@app.task(queue="mail", max_attempts=1)
async def trivial(n: int) -> None:
    (HERE / f"done-{n}").touch()

async def is_done() -> bool:
    if sum(name.startswith("done-") for name in os.listdir(HERE)) < 40:
        return False
    return bool(await broker.dead("mail", 50)) and await broker.waiting("mail") == 0

async def serve() -> None:
    while not await is_done():  # a worker that ends gives back what comes again and has not begun
        async with app.worker(queues=["mail"]):
            while not await is_done():
                await asyncio.sleep(0.05)
    await app.aclose()

for times in range(30):
    if not (child := os.fork()):
        asyncio.run(serve())
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(times)
        break
"""


@pytest.fixture
async def broker(rabbit: RabbitServer) -> AsyncIterator[RabbitMQ]:
    """A queue with nothing in it."""
    broker = RabbitMQ(rabbit.url(), prefix="suspects")
    async with emptied(broker, rabbit, "mail"):
        yield broker


async def run_again_and_again(here: Path, broker: str) -> int:
    """Run workers until all is done; return how often one ended."""
    (here / "shop.py").write_text(PROGRAM.replace("BROKER", broker))
    ran = await asyncio.create_subprocess_exec(sys.executable, here / "shop.py", stdout=PIPE)
    try:
        async with asyncio.timeout(DEADLINE):
            told, _ = await ran.communicate()
    finally:
        if ran.returncode is None:
            ran.kill()
    return int(told)


async def enqueue(broker: Transport) -> None:
    """Enqueue one that ends its workers, and forty behind it."""
    app = Mutirao(transports={"mail": broker})

    @app.task(queue="mail")
    async def bad() -> None: ...

    @app.task(queue="mail")
    async def trivial(n: int) -> None: ...

    await bad.aenqueue()
    await app.aenqueue_many(trivial.job(n) for n in range(40))


async def check(broker: Transport, here: Path) -> None:
    """Only that one is dead, after ten starts, and nothing is left."""
    [dead] = await broker.dead("mail", 50)
    assert (dead.task, dead.cause.error_type) == ("bad", "WorkerLost")
    assert (here / "bad").read_text() == "x" * MAX_LOST_RUNS
    assert await broker.waiting("mail") == 0
    await broker.aclose()


async def test_one_that_ends_its_workers(
    broker: RabbitMQ, rabbit: RabbitServer, tmp_path: Path
) -> None:
    """It is dead after ten starts; the forty beside it are all done, and none of them is dead."""
    await enqueue(broker)
    made = f"rabbitmq import RabbitMQ\nbroker = RabbitMQ({rabbit.url()!r}, prefix='suspects')"
    assert await run_again_and_again(tmp_path, made) == MAX_LOST_RUNS
    await check(broker, tmp_path)


@pytest.mark.repeats(decided="tests/conformance/test_sqs.py")
async def test_one_that_ends_its_workers_on_sqs(
    moto_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Likewise, with one attempt: none of them has used it."""
    for name, value in USUAL.items():
        monkeypatch.setenv(name, value)
    how = f"{uuid4().hex[:8]}-{{queue}}", f"visibility=2, wait=1, endpoint_url={moto_url!r}"
    broker = SQS(how[0], visibility=2, wait=1, endpoint_url=moto_url)
    await broker.declare(["mail"])
    await enqueue(broker)
    made = f"sqs import SQS\nbroker = SQS({how[0]!r}, {how[1]})"
    assert await run_again_and_again(tmp_path, made) == MAX_LOST_RUNS
    await check(broker, tmp_path)


def suspect(n: int, *, noted: bool = False) -> Message:
    """Return a job that came again."""
    return Message(
        id=f"{n:032x}", task="work", args=f'{{"n": {n}}}', queue="mail", suspect=True, noted=noted
    )


async def test_nothing_is_received_soon_after_the_start_of_a_suspect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others would be sent anew, and exist twice if it ended its worker meanwhile."""
    monkeypatch.setattr(broker_consumer, "QUIET", 3_600.0)
    broker, began, gate = MemoryTransport(), list[int](), asyncio.Event()
    app = Mutirao(transports={"mail": broker})
    await broker.declare(["mail"])

    @app.task(queue="mail")
    async def work(n: int) -> None:
        began.append(n)
        await gate.wait()

    async with app.worker(queues=["mail"], concurrency=4):
        await broker.publish([suspect(1, noted=True)])
        await until(lambda: began == [1])
        await work.aenqueue(2)
        await broker.publish([suspect(3)])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(until(lambda: len(began) > 1), 0.2)
        gate.set()
        await until(lambda: sorted(began) == [1, 2, 3])
        monkeypatch.setattr(broker_consumer, "QUIET", 0.0)
        gate.clear()
        await broker.publish([suspect(4, noted=True)])
        await until(lambda: began[3:] == [4])
        await work.aenqueue(5)
        await until(lambda: began[3:] == [4, 5])
        gate.set()
    await app.aclose()


async def test_what_comes_with_suspects_waits_until_they_are_sent_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may end its worker, too."""
    broker, began = MemoryTransport(), list[int]()
    sending, sent, settle = asyncio.Event(), asyncio.Event(), memory._Consumer.settle
    app = Mutirao(transports={"mail": broker})
    await broker.declare(["mail"])

    async def settle_later(
        self: memory._Consumer, settlings: Sequence[Settling]
    ) -> list[TransportError | None]:
        if any(isinstance(each, Again) for each in settlings):
            sending.set()
            await sent.wait()
        return await settle(self, settlings)

    monkeypatch.setattr(memory._Consumer, "settle", settle_later)

    @app.task(queue="mail")
    async def work(n: int) -> None:
        began.append(n)

    await broker.publish([suspect(1), suspect(2)])
    await work.aenqueue(3)
    async with app.worker(queues=["mail"], concurrency=4):
        await sending.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(until(lambda: bool(began)), 0.2)
        sent.set()
        await until(lambda: sorted(began) == [1, 2, 3])
    assert began[0] == 3
    await app.aclose()


@pytest.fixture
def proxy(rabbit: RabbitServer) -> Iterator[Proxy]:
    """A way to the broker on which connections break."""
    with Proxy(rabbit.port) as proxy:
        yield proxy


def through(proxy: Proxy) -> str:
    """Return the URL of that way."""
    return f"amqp://guest:guest@127.0.0.1:{proxy.port}/"


@pytest.mark.parametrize("workers", [1, 2])
async def test_connections_that_break(broker: RabbitMQ, proxy: Proxy, workers: int) -> None:
    """Twelve times while a healthy job runs: it is run again, and not counted."""
    starts, gate = list[str](), asyncio.Event()

    def made() -> Mutirao:
        app = Mutirao(transports={"mail": RabbitMQ(through(proxy), prefix="suspects")})

        @app.task(queue="mail", max_attempts=1)
        async def healthy(job: Job) -> None:
            starts.append(str(job.id))
            await gate.wait()
            starts.append("done")

        return app

    apps = [made() for _ in range(workers)]
    async with asyncio.TaskGroup() as group:
        stop = asyncio.Event()
        for app in apps:
            group.create_task(_serve(app, stop))
        await apps[0].tasks["healthy"].aenqueue()
        for times in range(12):
            await until(lambda times=times: len(starts) > times)  # type: ignore[misc]
            proxy.cut()
        await until(lambda: len(starts) > 12)
        gate.set()
        await until(lambda: "done" in starts)
        stop.set()
    assert await broker.dead("mail", 5) == []
    for app in apps:
        await app.aclose()


async def _serve(app: Mutirao, stop: asyncio.Event) -> None:
    async with app.worker(queues=["mail"]):
        await stop.wait()


@pytest.fixture
def impatient(rabbit: RabbitServer) -> Iterator[None]:
    """The broker takes a message back, and its channel away, after half a second."""

    def waits(seconds: float, tick: float) -> None:
        terms = {"consumer_timeout": seconds, "channel_tick_interval": tick}
        rabbit.control(
            "eval",
            ", ".join(
                f"application:set_env(rabbit, {name}, {int(1000 * value)})"
                for name, value in terms.items()
            )
            + ".",
        )

    waits(0.5, 0.2)
    yield
    waits(1_800, 60)


@pytest.mark.usefixtures("impatient")
async def test_a_job_beyond_the_consumer_timeout(
    broker: RabbitMQ, rabbit: RabbitServer, caplog: pytest.LogCaptureFixture
) -> None:
    """It comes again each time and is not counted; once it is fast enough, it is done."""
    app = Mutirao(transports={"mail": RabbitMQ(rabbit.url(), prefix="suspects")})
    starts, gate = list[str](), asyncio.Event()

    @app.task(queue="mail", max_attempts=1)
    async def slow(job: Job) -> None:
        starts.append(str(job.id))
        await gate.wait()
        starts.append("done")

    async with app.worker(queues=["mail"]) as worker:
        await slow.aenqueue()
        await until(lambda: len(starts) > 3)
        gate.set()
        await until(lambda: "done" in starts)
        await until(lambda: "longer than the broker's consumer_timeout" in caplog.text)
        assert worker.health().alive

        async def settled() -> bool:
            return await broker.waiting("mail") == 0

        await until(settled)
    assert await broker.dead("mail", 5) == []
    await app.aclose()


async def test_a_phase_whose_connection_breaks(proxy: Proxy) -> None:
    """It runs again, twelve times; the schedule does not stop."""
    broker = RabbitMQ(through(proxy), prefix=f"suspects-{uuid4().hex[:8]}")
    app, starts, gate = Mutirao(transports={"mail": broker}), list[int](), asyncio.Event()
    await broker.declare(["mail"])
    await broker.declare_schedules(["pull"])

    @app.schedule(every=0.2)
    @app.task(queue="mail", max_attempts=1)
    async def pull(job: Job) -> None:
        starts.append(job.id)
        await gate.wait()

    async with app.worker(queues=["mail"]):
        for times in range(12):
            await until(lambda times=times: len(starts) > times)  # type: ignore[misc]
            proxy.cut()
        await until(lambda: len(starts) > 12)
        gate.set()
        await until(lambda: len({*starts}) > 2)
        assert await broker.dead("mail", 5) == []
    assert len({*starts[:13]}) == 1
    await app.aclose()


async def test_the_queue_of_one_schedule_is_deleted(rabbit: RabbitServer) -> None:
    """The phases of others go on.

    It is deleted while its phase runs: RabbitMQ 3.10 ends a connection by which a queue is consumed
    or published to at the moment of its deletion (541).
    """
    prefix = f"suspects-{uuid4().hex[:8]}"
    broker = RabbitMQ(rabbit.url(), prefix=prefix)
    app, beats = Mutirao(transports={"mail": broker}), list[str]()
    pulling, gate, pulled, beating, deleted = (asyncio.Event() for _ in range(5))
    await broker.declare(["mail"])
    await broker.declare_schedules(["pull", "beat"])

    @app.schedule(every=0.2)
    @app.task(queue="mail")
    async def pull() -> None:
        pulling.set()
        try:
            await gate.wait()
        except asyncio.CancelledError:
            beats.append("pull was cut")
            raise
        pulled.set()

    @app.schedule(every=0.1)
    @app.task(queue="mail")
    async def beat() -> None:
        beating.set()
        await deleted.wait()
        beats.append("beat")

    async with app.worker(queues=["mail"]):
        await pulling.wait()
        await beating.wait()
        await delete_queue(rabbit, f"{prefix}-schedules.beat")
        deleted.set()
        await until(lambda: len(beats) > 2)  # it was made again
        gate.set()
        await pulled.wait()
    assert {*beats} == {"beat"}
    await app.aclose()


async def test_the_queue_of_a_schedule_is_deleted_between_two_phases(
    rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody stands in line at that moment, to whom the broker would say so: it is made again."""
    prefix, beats, passed = f"suspects-{uuid4().hex[:8]}", list[int](), RabbitTokens.pass_turn
    broker = RabbitMQ(rabbit.url(), prefix=prefix)
    app = Mutirao(transports={"mail": broker})
    await broker.declare(["mail"])
    await broker.declare_schedules(["beat"])

    async def pass_turn(tokens: RabbitTokens, schedule: str) -> None:
        await passed(tokens, schedule)
        if len(beats) == 2:
            await delete_queue(rabbit, f"{prefix}-schedules.beat")

    monkeypatch.setattr(RabbitTokens, "pass_turn", pass_turn)

    @app.schedule(every=0.1)
    @app.task(queue="mail")
    async def beat() -> None:
        beats.append(1)

    async with app.worker(queues=["mail"]):
        await until(lambda: len(beats) > 4)
    await app.aclose()


async def test_the_queue_of_what_runs_is_deleted(rabbit: RabbitServer) -> None:
    """Nobody else can have it: the coroutine ends; what it does then is kept."""
    prefix = f"suspects-{uuid4().hex[:8]}"
    broker = RabbitMQ(rabbit.url(), prefix=prefix)
    app, told, gate = Mutirao(transports={"mail": broker}), list[str](), asyncio.Event()
    await broker.declare(["mail"])

    @app.task(queue="mail", max_attempts=1)
    async def work(fails: bool) -> None:
        told.append("begun")
        await gate.wait()
        told.append("ended")
        if fails:
            raise ValueError("no")

    async with app.worker(queues=["mail"]) as worker:
        for fails in (False, True):
            await work.aenqueue(fails)
        await until(lambda: told == ["begun", "begun"])
        await delete_queue(rabbit, f"{prefix}.mail")

        async def made_again() -> bool:
            try:
                return await broker.waiting("mail") == 0
            except Exception:  # noqa: BLE001 (it is asked again)
                return False

        await until(made_again)
        gate.set()

        async def buried() -> bool:
            return len(await broker.dead("mail", 5)) == 1

        await until(buried)
        assert worker.health().alive
    assert told == ["begun", "begun", "ended", "ended"]
    await app.aclose()
