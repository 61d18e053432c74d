"""The deadlocks that a server has broken, read from its log: who met whom, with what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

PREFIX = "hammer %p %u "  # log_line_prefix
SHOWN = 90  # characters of a statement

_LINE = re.compile(r"hammer (\d+) (\S*) (\w+):  (.*)", re.DOTALL)
_WAITS = re.compile(r"Process (\d+) waits for (\w+) on ([^;]*);")
_STATEMENT = re.compile(
    r"^\s*Process (\d+): (.*?)(?=^\s*Process \d+: |\Z)", re.DOTALL | re.MULTILINE
)
_FUNCTION = re.compile(r"\s*SELECT\s[^()]*?(mutirao_\w+)\(")
_CONTEXT = re.compile(r"(?:in relation|function) (\S+?\"|\w+)")

# What a statement in a caller's session says of itself.
_SAID_FIRST = re.compile(r"/\*M! SET STATEMENT .*? FOR \*/ |(?<=[A-Z]) /\*\+ .*? \*/", re.DOTALL)
# Both go on with a line that begins with the time, or, older ones, with stars.
_THREAD = re.compile(
    r"(?:MariaDB|MySQL) thread id (\d+), .*?query id \d+ \S+ \S+ (\S+)[^\n]*\n(.*?)"
    r"\n(?:\*\*\*|\d{4}-\d\d-\d\d[T ])",
    re.DOTALL,
)
_LOSER = re.compile(r"WE ROLL BACK TRANSACTION \((\d+)\)")
_LOCKED = re.compile(r"index (\S+ of table \S+)")


@dataclass
class Deadlock:
    """One circle: who was told to give up, and what each had asked for last.

    `where` names what the one that gave up was at: a relation, and functions around it.
    """

    victim: str
    statements: dict[int, str]
    where: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)

    @property
    def pair(self) -> tuple[str, ...]:
        """Those who met: each kind once, in an order that does not depend on who lost."""
        found = zip(self.users, self.statements.values(), strict=True)
        return tuple(sorted({f"{user}: {statement}" for user, statement in found}))


def deadlocks(log: str) -> list[Deadlock]:
    """Return all deadlocks that a log tells of."""
    users: dict[int, str] = {}
    found: list[Deadlock] = []
    open_: dict[int, Deadlock] = {}
    for pid, user, severity, text in _messages(log):
        users[pid] = user or users.get(pid, "")
        if severity == "ERROR" and text.startswith("deadlock detected"):
            open_[pid] = Deadlock(users[pid], {})
            found.append(open_[pid])
        elif severity == "DETAIL" and pid in open_ and _WAITS.search(text):
            seen = _STATEMENT.findall(text)
            open_[pid].statements = {int(each): short(said) for each, said in seen}
        elif severity == "CONTEXT" and pid in open_:
            open_[pid].where = [name.strip('"') for name in _CONTEXT.findall(text)]
        elif severity in ("STATEMENT", "ERROR", "LOG"):
            open_.pop(pid, None)
    for each in found:
        each.users = [users.get(pid, "?") for pid in each.statements]
    return found


def of_mysql(log: str) -> list[Deadlock]:
    """Return all deadlocks that the log of a server with innodb_print_all_deadlocks has."""
    return [_of_mysql(part) for part in log.split("Transactions deadlock detected")[1:]]


def _of_mysql(part: str) -> Deadlock:
    met = _THREAD.findall(part)
    loser = _LOSER.search(part)
    users = [user for _, user, _ in met]
    victim = users[int(loser[1]) - 1] if loser and int(loser[1]) <= len(users) else "?"
    statements = {int(thread): short(said) for thread, _, said in met}
    where = [name.split(".")[-1].strip("`") for name in _LOCKED.findall(part)]
    return Deadlock(victim, statements, where=where, users=users[: len(statements)])


def described(found: Iterable[Deadlock]) -> Iterator[str]:
    """Yield the pairs that met, the most frequent first, and where the one that gave up was."""
    found = list(found)
    places: dict[tuple[str, ...], Counter[str]] = {}
    for each in found:
        place = " in ".join(each.where) or "its own statement"
        places.setdefault(each.pair, Counter())[f"{each.victim} at {place}"] += 1
    for pair, times in Counter(each.pair for each in found).most_common():
        yield f"{times:6,} × {pair[0] if pair else '?'}"
        yield from (f"         {other}" for other in pair[1:])
        for place, often in places[pair].most_common(3):
            yield f"           gave up {often:,} times: {place}"


def short(statement: str) -> str:
    """Return the beginning of a statement, without what differs from call to call."""
    if function := _FUNCTION.match(statement):
        return f"{function[1]}(…)"
    statement = _SAID_FIRST.sub("", statement)
    text = re.sub(r"'(?:[^']|'')*'?", "'…'", " ".join(statement.rstrip("; \n").split()))
    text = re.sub(r"\$\d+(?:::\w+)?|%s|\b\d+\b", "?", text)
    text = re.sub(r"\?(?:(?:::[\w ]+(?:\[\])?)?, ?\?)+(?:::[\w ]+(?:\[\])?)?", "?, …", text)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _messages(log: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield (process, user, severity, text); lines that go on begin with a tab."""
    whole: list[str] = []
    for line in [*log.splitlines(), "hammer"]:
        if line.startswith("\t") and whole:
            whole.append(line[1:])
            continue
        if whole and (parts := _LINE.match("\n".join(whole))):
            yield int(parts[1]), parts[2], parts[3], parts[4]
        whole = [line]
