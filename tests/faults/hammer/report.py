"""What came of it: figures as a table, who met whom, and what is not as promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.faults.hammer.deadlocks import Deadlock, described
from tests.faults.hammer.stage import CALLER, COMMAND, USERS, WORKER
from tests.faults.hammer.tally import BUSY, DEADLOCK, NO_LOCK, SERIALIZATION, Line, Tally

_STATES = (DEADLOCK, SERIALIZATION, NO_LOCK, BUSY)
_HEADS = ("deadlock", "serialize", "no lock", "busy", "other")


@dataclass
class Report:
    """What happened.

    Parameters:
        transactions: of everybody, as the server counts them.
        counted: deadlocks, as the server counts them; `deadlocks` are those of its log.
        handlers: attempts that ended with an error of the database, and how.
        said: what workers said of locks, and how often.
        wrong: what is lost, and workers that ended by themselves.
        rare: transactions in which one deadlock may be, where nobody is told of it.
    """

    tally: Tally
    seconds: float = 0.0
    transactions: int = 0
    counted: int = 0
    deadlocks: list[Deadlock] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    said: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    rare: int = 1

    @property
    def elsewhere(self) -> int:
        """Transactions of workers and own commands; each is one statement or more."""
        return max(0, self.transactions - self.tally.made(CALLER))

    def problems(self) -> list[str]:
        """Return what is not as promised."""
        return [*self._deadlocks_reached(), *self._failures(), *self.wrong]

    def lines(self) -> Iterator[str]:
        """Yield everything that there is to tell, one line each."""
        yield f"{self.seconds:.1f} seconds"
        yield f"{'who':8} {'operation':20} {'made':>8} {'failed':>8} " + " ".join(
            f"{head:>9}" for head in _HEADS
        )
        for (who, what), line in sorted(self.tally.lines.items()):
            yield _row(who, what, line)
        yield from self._of_server()
        for how, times in Counter(self.handlers).most_common(10):
            yield f"{times:,} attempts ended so: {how}"
        for message, times in self.said.most_common(10):
            yield f"workers said {times:,} times: {message}"

    def _of_server(self) -> Iterator[str]:
        if not self.transactions:
            return
        gave_up = Counter(each.victim for each in self.deadlocks)
        shares = ", ".join(f"{who} {gave_up[who]:,}" for who in USERS)
        yield f"{self.transactions:,} transactions, {self.elsewhere:,} of them not callers'"
        yield f"{self.counted:,} deadlocks on the server; who gave up: {shares}"
        yield from described(self.deadlocks)

    def _deadlocks_reached(self) -> Iterator[str]:
        gave_up = Counter(each.victim for each in self.deadlocks)
        callers = max(gave_up[CALLER], self.tally.failed(CALLER, DEADLOCK))
        if callers:
            yield f"{callers:,} deadlocks in transactions that only enqueue"
        if people := self.tally.failed(COMMAND, DEADLOCK):
            yield f"{people:,} deadlocks reached those who gave orders"
        if self.handlers:
            yield f"{len(self.handlers):,} attempts met an error of the database"
        others = self.counted - gave_up[CALLER]
        # One says nothing of how many there are in so many: a short run may meet it.
        if others > max(1, self.elsewhere / self.rare):
            few = f"{gave_up[WORKER]:,} of workers, {gave_up[COMMAND]:,} of orders"
            yield f"{others:,} deadlocks elsewhere ({few}), in {self.elsewhere:,} transactions"

    def _failures(self) -> Iterator[str]:
        for (who, what, state), words in self.tally.said.items():
            if state not in (DEADLOCK, BUSY):
                times = self.tally.lines[who, what].failed[state]
                yield f"{who}: {what} failed {times:,} times with {state}: {words}"


def _row(who: str, what: str, line: Line) -> str:
    known = [line.failed[state] for state in _STATES]
    figures = [line.made, line.failed.total()]
    others = [*known, line.failed.total() - sum(known)]
    return f"{who:8} {what:20} " + " ".join(
        [*(f"{each:8,}" for each in figures), *(f"{each:9,}" for each in others)]
    )
