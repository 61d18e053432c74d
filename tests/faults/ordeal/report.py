"""What is said at the end: how the workers came through each trouble, the counts, the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from tests.faults.ordeal.findings import Finding
from tests.faults.ordeal.fleet import Ending
from tests.faults.ordeal.recovery import Recovery


@dataclass(frozen=True)
class Passed:
    """A trouble that is over, and what came after it. `during`: jobs that began while it lasted."""

    name: str
    told: str
    seconds: float
    during: int
    recovery: Recovery


@dataclass
class Report:
    """Everything that is known in the end."""

    passed: list[Passed] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    measures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    jobs: int = 0
    attempts: Counter[str] = field(default_factory=Counter)
    effects: int = 0
    executions: int = 0
    looks: int = 0
    put_off: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def lines(self) -> Iterator[str]:
        """Yield the report, one line after the other."""
        yield from self._troubles()
        yield ""
        yield f"{self.seconds:,.0f} seconds, {self.jobs:,} jobs, {self.executions:,} executions"
        yield "attempts: " + _counted(self.attempts)
        yield f"{self.effects:,} rows were written in transactions"
        yield f"all promises were checked {self.looks} times, and could not be {self.put_off} times"
        yield "the producer was refused: " + _counted(self.failures)
        yield "workers ended: " + _counted(self._statuses())
        yield from self._slowest_ends()
        yield from self.measures

    def problems(self) -> Iterator[str]:
        """Yield what is not as promised, each with the trouble that it came in."""
        yield from (f"{each.text} ({each.trouble})" for each in self.findings)

    def _troubles(self) -> Iterator[str]:
        found = Counter(finding.trouble for finding in self.findings)
        names = sorted({each.name for each in self.passed})
        head = ("first job", "due jobs", "workers", "all")
        yield (
            f"{'trouble':18}{'times':>6}" + "".join(f"{h:>16}" for h in head) + f"{'findings':>10}"
        )
        yield f"{'':24}" + "".join(f"{'median  longest':>16}" for _ in head)
        for name in names:
            each = [passed.recovery for passed in self.passed if passed.name == name]
            columns = (
                [r.first for r in each],
                [r.due for r in each],
                [_last(list(r.places.values())) for r in each],
                [r.all for r in each],
            )
            times = "".join(f"{_median_and_longest(column):>16}" for column in columns)
            yield f"{name:18}{len(each):>6}{times}{found[name]:>10}"

    def _statuses(self) -> Counter[str]:
        words = {"": "by itself", "kill": "killed", "stop": "stopped"}
        return Counter(f"{words[each.asked]} with {each.status}" for each in self.endings)

    def _slowest_ends(self) -> Iterator[str]:
        stopped = [e.took for e in self.endings if e.asked == "stop" and e.took is not None]
        failed = [e.took for e in self.endings if not e.asked and e.took is not None]
        if stopped:
            yield f"the slowest end of a worker that was asked to stop took {max(stopped):.1f} s"
        if failed:
            yield f"the slowest end of a worker that said it had failed took {max(failed):.1f} s"


def _last(values: Sequence[float | None]) -> float | None:
    """Return the greatest; None, which is never, counts as that."""
    return None if not values or None in values else max(v for v in values if v is not None)


def _median_and_longest(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    middle = f"{median(known):.1f}" if known else "never"
    longest = f"{max(known):.1f}" if len(known) == len(values) else "never"
    return f"{middle}  {longest:>7}"


def _counted(counts: Counter[str]) -> str:
    text = ", ".join(f"{count:,} {word}" for word, count in sorted(counts.items()))
    return text or "none"
