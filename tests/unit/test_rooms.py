"""House rules about folders and calls: what is large, wide or named twice is on a list here.

The lists may only become shorter: a test fails too where an entry is not needed any more.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOM = TESTS.parent / "src" / "mutirao"
SOURCES = sorted(ROOM.rglob("*.py"))
MOST_FILES, MOST_PARAMETERS = 20, 7

# Whose tests know the files of the engine; others have what they need from `tests/support/engine`.
# Programs that a test starts would import all of that.
KNOW_THE_ENGINE = (
    "faults/simulation/fleet.py",  # gives the engine another clock
    "faults/simulation/mutants.py",  # puts defects in
    "integration/worker/programs",
    "integration/worker/unruly.py",
    "support/engine.py",
    "unit/engine",
)

# What a program with a database imports, and what it must not: features that it does not use.
PROGRAM = ("mutirao.app", "mutirao.workers", "mutirao.engine.workers.database")
LEFT_OUT = {
    *("cli", "federation", "hub", "integrations", "telemetry", "testing", "transports", "web"),
    *("webhooks", "notifiers.hub", "notifiers.hub_client", "engine.brokers.consumer"),
    *(
        "engine.brokers.doorbells",
        "engine.brokers.schedule_tokens",
        "engine.workers.several_databases",
    ),
}

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
    "engine/dispatch/executor.py": 1,
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


def named(node: ast.AST) -> Iterator[str]:
    """Yield the modules that a statement imports, and what a call patches by its whole name."""
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        yield node.module or ""
        yield from (f"{node.module}.{each.name}" for each in node.names)
    elif isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = ast.unparse(node.func).rpartition(".")[2]
        if called in ("setattr", "delattr", "patch", "import_module"):
            yield str(node.args[0].value)


def of_the_engine(source: str) -> set[str]:
    """Return what a file imports or patches of the engine, but for its settings."""
    if "mutirao.engine" not in source:
        return set()  # most files, which need not be read closer
    found = {name for node in ast.walk(ast.parse(source)) for name in named(node)}
    inside = {each for each in found if each.startswith("mutirao.engine.")}
    return {each for each in inside if not f"{each}.".startswith("mutirao.engine.settings.")}


def test_tests_of_others_know_no_files_of_the_engine() -> None:
    """A file of the engine is moved without them."""
    know = tuple(map(TESTS.joinpath, KNOW_THE_ENGINE))
    found = {
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        if not any(path.is_relative_to(each) for each in know) and of_the_engine(path.read_text())
    }
    assert found == set()


def test_an_import_from_the_engine_is_noticed() -> None:
    """The rule above can fail; the settings are no private matter."""
    loops = "mutirao.engine.loops"
    assert of_the_engine(f"from {loops} import Loops") == {loops, f"{loops}.Loops"}
    assert of_the_engine("from mutirao.engine import loops") == {loops}
    assert of_the_engine(f"import {loops} as its") == {loops}
    assert of_the_engine(f"monkeypatch.setattr('{loops}.PACE', 0)") == {f"{loops}.PACE"}
    assert of_the_engine("from mutirao.engine.settings import WorkerSettings") == set()
    assert of_the_engine("from mutirao.engine import settings") == set()


def file_of(module: str) -> Path | None:
    """Return the file of a module of ours; None: there is none."""
    place = TESTS.parent.joinpath("src", *module.split("."))
    found = (place.with_suffix(".py"), place / "__init__.py")
    return next((each for each in found if each.is_file()), None)


def at_import(source: str) -> Iterator[str]:
    """Yield what importing a file imports of ours; nothing in functions, or for types only."""
    left: list[ast.AST] = [ast.parse(source)]
    while left:
        node = left.pop()
        if isinstance(node, Function) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ):
            continue
        left += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mutirao"):
            yield node.module or ""
            yield from (f"{node.module}.{each.name}" for each in node.names)


def imported(modules: Iterable[str]) -> set[str]:
    """Return what importing these modules imports of ours, they included."""
    found, left = set[str](), [*modules]
    while left:
        module = left.pop()
        if module not in found and (path := file_of(module)) is not None:
            found.add(module)
            left += [module.rpartition(".")[0], *at_import(path.read_text())]
    return found


def test_a_program_imports_nothing_of_features_that_it_does_not_use() -> None:
    """Brokers, a hub, webhooks, federation, the dashboard and telemetry are imported once used."""
    found = imported(PROGRAM)
    assert {"mutirao.sql.store.hub", "mutirao.engine.claiming.producer"} <= found  # it finds them
    unused = {f"mutirao.{each}" for each in LEFT_OUT}
    assert {one for one in unused for each in found if f"{each}.".startswith(f"{one}.")} == set()
