"""The command line: how fast it is here, on a database given for it."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import click

from benchmarks.backlog import SIZES, backlog
from benchmarks.carried import carried
from benchmarks.command import command
from benchmarks.databases import databases
from benchmarks.drain import drain
from benchmarks.enqueue import PRODUCERS, enqueue
from benchmarks.fairness import fairness
from benchmarks.fanout import fanout
from benchmarks.figures import Figures, Result
from benchmarks.fleet import WORKERS as FLEETS, fleet
from benchmarks.hub import hub
from benchmarks.idle import idle
from benchmarks.latency import latency
from benchmarks.limits import limits
from benchmarks.load import PAYLOAD
from benchmarks.machine import Machine, machine
from benchmarks.memory import memory
from benchmarks.peers.envs import OF_WEBHOOKS, ON_RABBITMQ
from benchmarks.pinned import pinned
from benchmarks.plot import check, plot_backlog, plot_pinned
from benchmarks.publish import TOLD, publish
from benchmarks.schedules import DUE, WORKERS, schedules
from benchmarks.start import start
from benchmarks.sustained import sustained
from benchmarks.telemetry import WAYS, telemetry
from benchmarks.transactions import transactions
from benchmarks.webhooks import webhooks
from mutirao.cli.group import Refusing
from mutirao.cli.options import as_json, names, option
from mutirao.cli.output import print_json, print_table

Command = TypeVar("Command", bound=Callable[..., Any])
Work = Callable[..., Awaitable[Result]]

_POSITIVE = click.FloatRange(min=0, min_open=True)
_AT_LEAST_1 = click.IntRange(min=1)
_COMMON = (
    option(
        *("-d", "--database"),
        required=True,
        envvar="MUTIRAO_DATABASE",
        metavar="URL",
        help="Any SQLAlchemy URL. Must hold no jobs but those of earlier benchmarks.",
    ),
    option("--runs", type=_AT_LEAST_1, default=1, help="Do it all so often, and show medians."),
    as_json,
)
_jobs = option("--jobs", type=_AT_LEAST_1, default=100_000, help="How many.")
_payload = option(
    "--payload", type=click.IntRange(min=0), default=PAYLOAD, help="Bytes of each job's arguments."
)
_processes = option("--processes", type=_AT_LEAST_1, default=1, help="Workers, each a process.")
_producer = option(
    "--producer",
    type=click.Choice(["asyncio", "plain"]),
    default="asyncio",
    help="Who enqueues: coroutines, or plain code in threads.",
)
_plot = option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw it into this file, .svg or .png; needs matplotlib.",
)
_concurrency = option(
    "-c", "--concurrency", type=_AT_LEAST_1, default=20, help="Handlers at once in a worker."
)

_settling = option(
    "--settling", type=click.FloatRange(min=0), default=5.0, help="Seconds before, not counted."
)
_watched = option("--seconds", type=_POSITIVE, default=30.0, help="How long idle ones are watched.")


def _listed(values: Sequence[int]) -> str:
    return ",".join(map(str, values))


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers in a text that are separated by commas."""
    found = names(text)
    if not all(number.isdecimal() and int(number) for number in found):
        raise click.BadParameter(f"{text!r} are no numbers above 0; write 1000,10000")
    return tuple(map(int, found))


def _chosen(known: Collection[str], lacks: str = "is none") -> Callable[..., tuple[str, ...]]:
    """Return what reads the names in a text, each of which must be known."""

    def named(_: click.Context, __: click.Parameter, text: str) -> tuple[str, ...]:
        found = names(text) if text else ()
        if unknown := set(found) - set(known):
            raise click.BadParameter(f"{min(unknown)!r} {lacks}; there are {', '.join(known)}")
        return found

    return named


def _others(known: Sequence[str]) -> Callable[[Any], Any]:
    """Return the option that names peers, of those that have an adapter."""
    named = _chosen(known, "has no adapter")
    return option("--peers", default="", callback=named, help=f"Others: {','.join(known)}.")


@click.group(
    "benchmarks",
    cls=Refusing,
    context_settings={"auto_envvar_prefix": "MUTIRAO_BENCH", "help_option_names": ["-h", "--help"]},
)
def bench() -> None:
    """Measure how fast it is here: each work makes its jobs, does them, and reports.

    Give an empty database; tables are made where there are none. A benchmark refuses a database
    that holds anybody's jobs, finished ones too, or where a worker runs; it removes what earlier
    benchmarks left. Nobody else should use the server meanwhile: it is measured as a whole.
    """


def _work(name: str, *options: Callable[[Any], Any]) -> Callable[[Command], click.Command]:
    def decorate(function: Command) -> click.Command:
        command: Any = function
        for each in reversed((*_COMMON[:1], *options, *_COMMON[1:])):
            command = each(command)
        return bench.command(name)(command)

    return decorate


@_work(
    "enqueue",
    option("--jobs", type=_AT_LEAST_1, default=2_000, help="One by one, each time."),
    option("--many", type=_AT_LEAST_1, default=100_000, help="At once, in one transaction."),
    option(
        "--producers",
        type=numbers,
        default=_listed(PRODUCERS),
        help="How many enqueue one by one at the same time; each number is measured.",
    ),
    _producer,
    _payload,
)
def _enqueue(**given: Any) -> None:
    """Enqueue one by one, with and without a busy worker beside, and many at once."""
    _run(enqueue, **given)


@_work(
    "drain",
    _jobs,
    _processes,
    option("--threads", is_flag=True, help="A plain function as handler, which runs in threads."),
    _payload,
    _concurrency,
    option("--alone", is_flag=True, help="Also claims and settlements without a worker around."),
)
def _drain(**given: Any) -> None:
    """Drain jobs that are there already: from the start of workers until all is written."""
    _run(drain, **given)


@_work(
    "sustained",
    option("--seconds", type=_POSITIVE, default=60.0, help="For how long."),
    option("--batch", type=_AT_LEAST_1, default=100, help="Jobs in a transaction."),
    _processes,
    _payload,
)
def _sustained(**given: Any) -> None:
    """Enqueue and drain at full speed together; tell what piles up."""
    _run(sustained, **given)


@_work(
    "latency",
    option("--jobs", type=_AT_LEAST_1, default=500, help="How many, one at a time."),
    _producer,
    option(
        "--pause",
        type=click.FloatRange(min=0),
        default=0.02,
        help="Seconds between two jobs, on average.",
    ),
)
def _latency(**given: Any) -> None:
    """Tell how soon an idle worker begins a job."""
    _run(latency, **given)


@_work(
    "pinned",
    option("--rounds", type=_AT_LEAST_1, default=30, help="How many."),
    option("--jobs", type=_AT_LEAST_1, default=20_000, help="In each round."),
    option("--snapshot/--no-snapshot", default=True, help="Whether a session holds one."),
    _plot,
)
def _pinned(plot: Path | None, **given: Any) -> None:
    """Enqueue and drain in rounds while another session holds a snapshot and a transaction id."""
    _run_and_plot(pinned, plot_pinned, plot, **given)


@_work(
    "backlog",
    option(
        "--sizes",
        type=numbers,
        default=_listed(SIZES),
        help="How many jobs wait behind those that are drained, such as 1000,5000000.",
    ),
    option("--jobs", type=_AT_LEAST_1, default=20_000, help="Drained at each size."),
    option("--claims", type=_AT_LEAST_1, default=200, help="Timed at each size, 100 jobs each."),
    option("--queues", type=_AT_LEAST_1, default=1, help="Jobs are spread over so many queues,"),
    option(
        "--priorities", type=_AT_LEAST_1, default=1, help="and in each over so many priorities."
    ),
    option("--scheduled", type=click.IntRange(min=0), default=0, help="More jobs, due tomorrow."),
    _plot,
)
def _backlog(plot: Path | None, **given: Any) -> None:
    """Drain and claim some jobs while many more wait."""
    _run_and_plot(backlog, plot_backlog, plot, **given)


@_work(
    "fanout",
    option("--parents", type=_AT_LEAST_1, default=10, help="Jobs in the beginning."),
    option("--children", type=_AT_LEAST_1, default=1_000, help="That each of them enqueues."),
    _processes,
)
def _fanout(**given: Any) -> None:
    """Drain jobs that enqueue jobs in the commit that completes them."""
    _run(fanout, **given)


@_work("publish", option("--jobs", type=_AT_LEAST_1, default=500, help="Published, and enqueued."))
@option("--told", type=numbers, default=_listed(TOLD), help="Subscriptions; each is measured.")
def _publish(**given: Any) -> None:
    """Publish beside enqueueing; fan out beside one INSERT … SELECT of the same rows."""
    _run(publish, **given)


@_work(
    "limits",
    _jobs,
    option("--keys", type=_AT_LEAST_1, default=1_000, help="Values that are counted apart."),
    option("--most", type=_AT_LEAST_1, default=20, help="Jobs of one value at once."),
    option(
        "--blocked",
        type=click.IntRange(min=0),
        default=100_000,
        help="Jobs of another value, whose turn never comes.",
    ),
    _processes,
)
def _limits(**given: Any) -> None:
    """Drain jobs without limits, with one for each key, and with others blocked before them."""
    _run(limits, **given)


@_work(
    "fairness",
    option("--jobs", type=_AT_LEAST_1, default=200_000, help="How many, each time."),
    option("--keys", type=_AT_LEAST_1, default=1_000, help="Tenants, where there are many."),
    option("--singles", type=_AT_LEAST_1, default=20, help="Others, with one job each."),
    _processes,
)
def _fair(**given: Any) -> None:
    """Drain jobs without turns and with them; have single jobs come amidst one tenant's many."""
    _run(fairness, **given)


@_work(
    "idle",
    option("--seconds", type=_POSITIVE, default=60.0, help="For how long."),
    _settling,
)
def _idle(**given: Any) -> None:
    """Watch a worker that has nothing to do."""
    _run(idle, **given)


@_work("start", option("--rounds", type=_AT_LEAST_1, default=5, help="Of all, in turns."))
def _start(**given: Any) -> None:
    """Tell what importing and starting a worker takes, beside SQLAlchemy, Celery and huey."""
    _run(start, **given)


@_work("memory", option("--jobs", type=_AT_LEAST_1, default=1_000_000, help="How many."), _payload)
def _memory(**given: Any) -> None:
    """Tell whether a worker grows with the jobs it does."""
    _run(memory, **given)


@_work(
    "transactions",
    option("--jobs", type=_AT_LEAST_1, default=5_000, help="How many, each time."),
    _concurrency,
)
def _transactions(**given: Any) -> None:
    """Drain jobs that insert a row in job.transaction(); have the driver commit the same."""
    _run(transactions, **given)


@_work(
    "webhooks",
    option("--jobs", type=_AT_LEAST_1, default=10_000, help="How many, each time."),
    _others(OF_WEBHOOKS),
)
def _webhooks(**given: Any) -> None:
    """Deliver webhooks, beside a bare loop of the same client, a silent receiver, and others."""
    _run(webhooks, **given)


@_work(
    "telemetry",
    _jobs,
    option("--rounds", type=_AT_LEAST_1, default=5, help="Of each way, in turn."),
    option("--ways", default=",".join(WAYS), callback=_chosen(WAYS), help="Which of these."),
    _payload,
)
def _telemetry(**given: Any) -> None:
    """Drain jobs by a worker that nobody watches, and with metrics, JSON logs and traces."""
    _run(telemetry, **given)


@_work("command", _jobs)
def _command(**given: Any) -> None:
    """Drain jobs by `mutirao worker` as users start it, and by an embedded worker."""
    _run(command, **given)


@_work(
    "schedules",
    option("--due", type=numbers, default=_listed(DUE), help="Due at once; each is measured."),
    option("--workers", type=numbers, default=_listed(WORKERS), help="Each number is measured."),
    option("--resting", type=_AT_LEAST_1, default=100_000, help="Due tomorrow, beside a worker."),
    _watched,
    _settling,
)
def _schedules(**given: Any) -> None:
    """Let many schedules tick that are due at once; watch a worker beside many at rest."""
    _run(schedules, **given)


@_work(
    "fleet",
    option("--workers", type=numbers, default=_listed(FLEETS), help="Each number is measured."),
    option("--jobs", type=_AT_LEAST_1, default=200, help="How many, one at a time."),
    option("--pause", type=click.FloatRange(min=0), default=0.05, help="Seconds between two jobs."),
    _watched,
    _settling,
)
def _fleet(**given: Any) -> None:
    """Count what idle workers do about a job that comes alone."""
    _run(fleet, **given)


@_work(
    "databases",
    option("--files", type=click.IntRange(min=0), default=100, help="SQLite files."),
    option("--servers", type=click.IntRange(min=0), default=20, help="Databases on the server."),
    option("--connections", type=click.IntRange(min=3), help="Of the worker at most."),
    option("--poll", type=_POSITIVE, default=2.0, help="Longest sleep of the worker, in seconds."),
    _watched,
    _settling,
)
def _databases(**given: Any) -> None:
    """Serve many databases by one worker: idle, and with a job in one after another."""
    _run(databases, **given)


@_work(
    "carried",
    option("--broker", metavar="URL", help="A RabbitMQ; else a broker in memory carries."),
    option("--jobs", type=_AT_LEAST_1, default=40_000, help="How many, by SQL and carried."),
    _concurrency,
    option("--workers", type=_AT_LEAST_1, default=10, help="Idle while statements are counted."),
    _watched,
    _settling,
)
def _carried(**given: Any) -> None:
    """Drain a queue that a broker carries, and by SQL alone; count statements of idle workers."""
    _run(carried, **given)


@_work(
    "web",
    option("--finished", type=_AT_LEAST_1, default=5_000_000, help="Jobs in history."),
    option("--live", type=_AT_LEAST_1, default=1_000_000, help="Jobs that wait or run."),
    option("--asks", type=_AT_LEAST_1, default=20, help="How often each page is asked for."),
    option("--quick", is_flag=True, help="A hundredth of the jobs, and three asks."),
    option("--keep", is_flag=True, help="Leave the jobs there; measure those of the last time."),
)
def _web(**given: Any) -> None:
    """Fill large tables; ask for each page of the dashboard: time, statements, rows read."""
    from benchmarks.pages import web  # others need no dashboard

    _run(web, **given)


@_work(
    "bi",
    option("--finished", type=_AT_LEAST_1, default=5_000_000, help="Jobs in history."),
    option("--newest", type=_AT_LEAST_1, default=10_000, help="That the questions look at."),
    option("--asks", type=_AT_LEAST_1, default=5, help="How often each question is asked."),
)
def _bi(**given: Any) -> None:
    """Fill a long history; ask each question of docs/bi.md: time, rows read."""
    from benchmarks.bi import bi  # it reads as the pages of the dashboard do

    _run(bi, **given)


@bench.command("hub")
@_COMMON[0]
@option("--clients", type=_AT_LEAST_1, default=1_000, help="Idle workers that are connected.")
@option("--rate", type=_AT_LEAST_1, default=10_000, help="Wakes a second.")
@option("--seconds", type=_POSITIVE, default=10.0, help="For how long.")
@option("--jobs", type=_AT_LEAST_1, default=200, help="How many, one at a time.")
@option("--workers", type=_AT_LEAST_1, default=20, help="Idle while statements are counted.")
@option("--watched", type=_POSITIVE, default=20.0, help="Seconds for which they are.")
@_settling
@as_json
def _hub(database: str, as_json: bool, **options: Any) -> None:
    """Measure a wake-up hub: what it carries, how soon jobs begin, statements of idle workers."""
    _show("hub", asyncio.run(hub(database, **options)), as_json, options)


@bench.command("sqs")
@option("--endpoint", metavar="URL", help="A server to use instead of moto's.")
@option("--jobs", type=_AT_LEAST_1, default=2_000, help="Messages of a round.")
@option("--rounds", type=_AT_LEAST_1, default=5, help="Of each way, in turn.")
@as_json
def _sqs(as_json: bool, **options: Any) -> None:
    """Send, receive and delete by the transport for SQS, and by a bare loop of boto3."""
    from benchmarks.sqs import sqs  # others need no boto3

    _show("sqs", asyncio.run(sqs(**options)), as_json, options)


def _show(work: str, found: Result, as_json: bool, options: dict[str, Any]) -> None:
    if as_json:
        print_json({"work": work, "options": options, "runs": [found]})
    else:
        rows = [(name, _shown(value)) for name, value in found.figures().items()]
        print_table(["figure", "run 1"], rows, empty="")


@bench.command("rabbitmq")
@option("--broker", required=True, metavar="URL", help="amqp://user:password@host:port/vhost")
@option("--jobs", type=_AT_LEAST_1, default=20_000, help="How many at once; a tenth one by one.")
@_concurrency
@_others(ON_RABBITMQ)
@as_json
def _rabbitmq(broker: str, as_json: bool, **options: Any) -> None:
    """Publish to RabbitMQ and drain a queue by broker alone, and by a bare aio-pika."""
    from benchmarks.rabbitmq import rabbitmq  # it needs aio-pika, which no other work does

    found = asyncio.run(rabbitmq(broker, **options))
    if as_json:
        print_json({"work": "rabbitmq", "options": options, "runs": [found]})
    else:
        rows = [(name, _shown(value)) for name, value in found.figures().items()]
        print_table(["figure", "run 1"], rows, empty="")


def _run_and_plot(
    work: Work, draw: Callable[[Path, Any], None], path: Path | None, **given: Any
) -> None:
    if path is not None:
        check(path)
    found = _run(work, **given)
    if path is not None:
        draw(path, found)


def _run(work: Work, database: str, runs: int, as_json: bool, **options: Any) -> list[Result]:
    """Do a work so often and print what it found."""

    async def all_runs() -> tuple[Machine, list[Result]]:
        if options.get("keep"):
            found = [await work(database, **options) for _ in range(runs)]
            return await machine(database, as_it_is=True), found
        where = await machine(database)
        return where, [await work(database, **options) for _ in range(runs)]

    where, found = asyncio.run(all_runs())
    if as_json:
        print_json({"work": work.__name__, "options": options, "machine": where, "runs": found})
    else:
        _print(where, [result.figures() for result in found])
    return found


def _print(where: Machine, runs: Sequence[Figures]) -> None:
    columns = ["figure", *(f"run {n}" for n in range(1, len(runs) + 1))]
    rows = [(name, *(_shown(run[name]) for run in runs)) for name in runs[0]]
    if len(runs) > 1:
        columns.append("median")
        rows = [(*row, _shown(_median(row[0], runs))) for row in rows]
    print_table(columns, rows, empty="")
    click.echo(
        f"\n{where.database}, {where.driver}, {where.python}, mutirao {where.mutirao},"
        f" {where.cores} cores, {where.platform}\n"
        + ", ".join(f"{name}={value}" for name, value in where.settings.items())
    )


def _median(name: str, runs: Sequence[Figures]) -> float | None:
    values = [value for run in runs if (value := run[name]) is not None]
    return median(values) if values else None


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    digits = next((n for n, least in ((0, 100), (1, 10), (2, 1)) if abs(value) >= least), 4)
    return f"{value:,.{digits}f}"
