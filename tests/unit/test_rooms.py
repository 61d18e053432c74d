"""House rules about folders and calls: what is large, wide or named twice is on a list here.

The lists may only become shorter: a test fails too where an entry is not needed any more.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOM = Path(__file__).parents[2] / "src" / "mutirao"
SOURCES = sorted(ROOM.rglob("*.py"))
MOST_FILES, MOST_PARAMETERS = 20, 7

# Folders with more files, and with how many.
LARGE_FOLDERS = {
    "cli": 28,
    "sql/drivers": 27,
    "sql/statements": 32,
}

# Constructors with more parameters, and with how many.
WIDE_CONSTRUCTORS = {
    "app.py:Mutirao": 10,
    "federation/federation.py:Federation": 13,
    "model/jobs/job.py:Job": 11,
    "transports/sqs/consumer.py:SqsConsumer": 8,
    "transports/sqs/polling.py:Polling": 9,
    "transports/sqs/transport.py:SQS": 14,
}

# Where tuples of their own are spread into positional parameters, and how often.
SPREADS = {
    "engine/calls/child.py": 1,  # the arguments of a handler, as the next ones but one
    "engine/dispatch/executor.py": 2,
    "model/jobs/job.py": 1,
    "testing/inlining.py": 1,
}

# Files of one name in several folders, all of one subject: a feature has the same name in each
# room.
SAME_SUBJECT = {
    "actions",
    "expiry",
    "admin",
    "audit",
    "brokers",
    "carried",
    "change",
    "claim",
    "connecting",
    "consumer",
    "decoding",
    "dialect",
    "django",
    "endpoints",
    "enqueue",
    "enqueue_statements",
    "events",
    "fairness",
    "federation",
    "findings",
    "figures",
    "foreign",
    "graphs",
    "health_checks",
    "hosts",
    "hours",
    "hub",
    "inbox",
    "intake",
    "job",
    "jobs",
    "lanes",
    "limits",
    "metrics",
    "mending",
    "moments",
    "progress",
    "queues",
    "reading",
    "records",
    "relay",
    "results",
    "schedules",
    "settling",
    "signing",
    "standing",
    "subscriptions",
    "supersede",
    "tokens",
    "topics",
    "transport",
    "transports",
    "uniqueness",
    "unreadable_rows",
    "verifying",
    "webhooks",
    "workers",
}

# Those of several subjects, which have to be distinguished.
TWO_SUBJECTS = {
    "base",
    "borrowing",
    "deliveries",
    "failures",
    "keys",
    "logs",
    "memory",
    "models",  # Django looks for its own by this name
    "options",
    "registration",
    "registry",
    "server",
    "urls",
    "wire",
    "words",
}


Function = ast.FunctionDef | ast.AsyncFunctionDef


def place(path: Path) -> str:
    """Return the path of a file or folder below the package."""
    return path.relative_to(ROOM).as_posix()


def wide(source: str) -> Iterator[tuple[str, int]]:
    """Yield each class whose constructor has too many parameters, and how many."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    given = each.args
                    number = len([*given.posonlyargs, *given.args, *given.kwonlyargs]) - 1
                    if number > MOST_PARAMETERS:
                        yield node.name, number


def spreads(source: str) -> int:
    """Return how often a function spreads a tuple of its own into positional parameters."""
    found = set()
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, Function):
            continue
        inside = list(ast.walk(function))
        tuples = {
            target.id
            for node in inside
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        found |= {
            (each.lineno, each.col_offset)
            for node in inside
            if isinstance(node, ast.Call)
            for each in node.args
            if isinstance(each, ast.Starred)
            and isinstance(each.value, ast.Name)
            and each.value.id in tuples
        }
    return len(found)


def test_folders_are_small() -> None:
    """Whoever opens a folder sees at a glance what is in it."""
    found = Counter(place(path.parent) for path in SOURCES if path.name != "__init__.py")
    assert {each: number for each, number in found.items() if number > MOST_FILES} == LARGE_FOLDERS


def test_constructors_take_few_parameters() -> None:
    """What belongs together is handed over as one value."""
    found = {
        f"{place(path)}:{name}": number
        for path in SOURCES
        for name, number in wide(path.read_text())
    }
    assert found == WIDE_CONSTRUCTORS


def test_a_wide_constructor_is_noticed() -> None:
    """The rule above can fail: at eight parameters, not at seven, whatever their kind."""
    source = "class A:\n    def __init__(self, {}): ..."
    assert list(wide(source.format("a, b, c, d, e, f, g"))) == []
    assert list(wide(source.format("a, b, c, /, d, e, f, *, g, h"))) == [("A", 8)]


def test_parameters_are_named_where_they_are_given() -> None:
    """A call says what it hands over: no tuple that is made before is spread into it."""
    found = {place(path): spreads(path.read_text()) for path in SOURCES}
    assert {each: number for each, number in found.items() if number} == SPREADS


def test_a_spread_is_noticed() -> None:
    """The rule above can fail; what a caller gives, or a list, may be spread."""
    assert spreads("def f():\n    about = (a, b)\n    g(*about)\n    h(*about)") == 2
    assert spreads("def f(*args):\n    g(*args)") == 0
    assert spreads("def f():\n    each = [a, b]\n    g(*each)") == 0


def test_a_name_in_two_folders_is_one_subject() -> None:
    """Who looks for a file by its name finds the subject, in the rooms that it passes."""
    found = defaultdict(list)
    for path in SOURCES:
        if path.name != "__init__.py":
            found[path.stem].append(path)
    twice = {name for name, paths in found.items() if len(paths) > 1}
    assert twice == SAME_SUBJECT | TWO_SUBJECTS
    assert set() == SAME_SUBJECT & TWO_SUBJECTS
