"""The works that are done several times, peer after peer, and told by their medians."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.peers.bench import Bench, Peer, attempted, record
from benchmarks.peers.envs import OURS
from benchmarks.peers.records import Record

MANY, ONE, DRAIN, LATENCY = "enqueue many", "enqueue one", "drain", "latency"
PAYLOADS = {"60 B": 60, "1 kB": 1_000, "8 kB": 8_000}
TWO, THREADS, COMMAND = "60 B, 2 processes", "60 B, threads", "60 B, its command"
_ONE_RATE = 6_000.0  # commits a second that the fastest come to; the disk sets it
_SHARES = {60: 1.0, 1_000: 0.7, 8_000: 0.25}  # of the jobs, because the large ones take longer
# As many for the limit as for ourselves: a start weighs more in a shorter run.
_OURS = {60: 80_000, 1_000: 50_000, 8_000: 16_000}


@dataclass(frozen=True, slots=True)
class Case:
    """A work in one variant; `run` does it once with one peer."""

    work: str
    variant: str
    run: Callable[[Bench, Peer, int], Iterator[Record]]


def drain(
    variant: str,
    payload: int = 60,
    processes: int = 1,
    *,
    sync: bool = False,
    command: bool = False,
) -> Case:
    """Preload, which is "enqueue many", and drain; by the peer's own `command` if so."""

    def run(bench: Bench, peer: Peer, number: int) -> Iterator[Record]:
        if sync and not peer.about["threads"]:
            yield Record(peer=peer.name, work=DRAIN, variant=variant, failed="has no threads")
            return
        if command and not peer.about["command"]:
            why = "the worker is one in its adapter's program, not its command"
            yield Record(peer=peer.name, work=DRAIN, variant=variant, failed=why)
            return
        jobs = _OURS[payload] if peer.name in OURS else bench.jobs(peer, _SHARES[payload])
        with bench.database(peer) as database:
            enqueued = peer.call("enqueue", database, jobs=jobs, payload=payload)
            if variant in PAYLOADS:
                yield record(peer, MANY, variant, number, enqueued | {"jobs": jobs})
            how = {"processes": processes, "sync": sync, "command": command}
            answer = peer.call("drain", database, jobs=jobs, **how)
        yield record(peer, DRAIN, variant, number, answer)

    return Case(DRAIN, variant, run)


def one(producers: int) -> Case:
    """Enqueue one by one, each in a transaction of its own."""
    variant = f"{producers} producer{'s' if producers > 1 else ''}"

    def run(bench: Bench, peer: Peer, number: int) -> Iterator[Record]:
        jobs = max(int(_ONE_RATE * bench.seconds), 16)
        with bench.database(peer) as database:
            answer = peer.call("one", database, jobs=jobs, producers=producers)
        yield record(peer, ONE, variant, number, answer)

    return Case(ONE, variant, run)


def latency(jobs: int) -> Case:
    """From the commit of a job to the start of its handler, with a worker that is idle."""

    def run(bench: Bench, peer: Peer, number: int) -> Iterator[Record]:
        with bench.database(peer) as database:
            answer = peer.call("latency", database, jobs=jobs)
        yield record(peer, LATENCY, "idle worker", number, answer)

    return Case(LATENCY, "idle worker", run)


def cases(quick: bool) -> list[Case]:
    """Return all of them, or fewer for a look."""
    small, medium, large = (drain(variant, payload) for variant, payload in PAYLOADS.items())
    by_command = drain(COMMAND, command=True)
    if quick:
        return [small, by_command, large, one(1), latency(50)]
    return [
        small,
        by_command,
        drain(TWO, processes=2),  # next to what it is compared with: hosts change by the minute
        medium,
        large,
        drain(THREADS, sync=True),
        one(1),
        one(16),
        latency(200),
    ]


def do(case: Case, bench: Bench, peer: Peer, number: int) -> Iterator[Record]:
    """Do a case once; a failure becomes a record that says why."""
    return attempted(peer, case.work, case.variant, number, lambda: case.run(bench, peer, number))
