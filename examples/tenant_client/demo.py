"""The promise, shown: never too many calls for a tenant at once, whatever happens to the workers.

    python examples/tenant_client/demo.py [DATABASE-URL]

Two workers make the calls; one is killed with SIGKILL in the middle, and its calls are made again.
Then the calls are counted. Exit status 0: the promise held.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1] / "shared"))
from house import House, opened, until

CALLS, AT_ONCE, BIG = 8, 2, "acme"
TENANTS = 3
MUTIRAO = (sys.executable, "-m", "mutirao")
WORK = (
    *(*MUTIRAO, "worker", "client:app", "--log-level", "warning"),
    *("--heartbeat", "0.5", "--expiry", "2"),
)
BUSY_ONES = "SELECT pid FROM mutirao_workers WHERE running > 0"
HELD = "SELECT coalesce(sum(running + parked), 0) FROM mutirao_limits"


class Call(NamedTuple):
    """A call that was made."""

    tenant: str
    number: int
    began: float
    ended: float


def read(log: Path) -> list[Call]:
    """Return the calls that were made, in order."""
    lines = log.read_text().splitlines() if log.exists() else []
    return sorted((Call(**json.loads(line)) for line in lines), key=lambda call: call.began)


def main(arguments: list[str]) -> int:
    """Run the demonstration; return the exit status."""
    here = Path(__file__).parent
    with TemporaryDirectory(prefix="mutirao-calls-") as directory:
        log = Path(directory, "calls.jsonl")
        with opened("client", here, arguments, CLIENT_LOG=str(log)) as house:
            house.run(*MUTIRAO, "migrate", "client:app")
            house.run(sys.executable, "client.py", "enqueue", str(CALLS))
            play(house, log)
            return verdict(read(log), house.ask(HELD)[0][0])


def verdict(calls: list[Call], held: int) -> int:
    """Say whether the promise held; return the exit status."""
    broken = list(flaws(calls, held, CALLS))
    if broken:
        print("The promise did NOT hold:", *broken, sep="\n")
        return 1
    small = max(call.ended for call in calls if call.tenant != BIG) - calls[0].began
    print(
        f"{len(calls)} calls for {TENANTS} tenants, never more than {AT_ONCE} at once for one;"
        f" those of the small ones were all made after {small:.1f} s of"
        f" {calls[-1].ended - calls[0].began:.1f} s."
    )
    return 0


def play(house: House, log: Path) -> None:
    """Make the calls, with an accident."""
    for _ in range(2):
        house.start(*WORK)
    until(lambda: len(read(log)) >= 10, "nothing was called")
    victim = until(lambda: [row[0] for row in house.ask(BUSY_ONES)], "nobody calls")[0]
    print(f"Worker {victim} is calling, and is killed with SIGKILL.")
    house.kill(victim)
    house.start(*WORK)
    unfinished = "SELECT count(*) FROM mutirao_live"
    until(lambda: house.ask(unfinished) == [(0,)], "some calls were never made")


def flaws(calls: list[Call], held: int, small: int) -> Iterator[str]:
    """Say in which ways the promise was broken; `small` are the calls of a small tenant."""
    of: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        of[call.tenant].append(call)
    for tenant, each in of.items():
        wanted = small * 10 if tenant == BIG else small
        if len({call.number for call in each}) != wanted:
            yield f"{tenant} had {len({call.number for call in each})} of {wanted} calls"
        most = max(sum(b.began <= a.began < b.ended for b in each) for a in each)
        if most > AT_ONCE:
            yield f"{tenant} had {most} calls at once"
    if len(of) != TENANTS:
        yield f"{len(of)} of {TENANTS} tenants had calls"
    if held:
        yield f"{held} places are still held or waited for"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
