"""What the README and the documents show works: here is a reader who does all of it."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from mutirao import Job, JobState, OutcomeKind
from mutirao.engine.settings import WorkerSettings
from mutirao.model.filters.qualifiers import QUALIFIERS
from mutirao.sql.drivers import kinds
from mutirao.tasks.options import CallTerms, TaskTerms
from tests.support.documents import Reader, blocks
from tests.support.followed import FOLLOWED, follow

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "examples" / "README.md"]
)

# Where it is decided what a page shows: those pages are followed by --repeats. What is left are the
# first pages that people read, and one of each kind: of a command, of the HTTP API, of MySQL.
DECIDED = {
    "tests/integration/carrying": (
        *("docs/outbox.md", "docs/rabbitmq.md", "docs/sqs.md"),
        "docs/howto/outbox-to-rabbitmq.md",
    ),
    "tests/integration/cli": ("docs/logs.md", "docs/howto/backlog.md", "docs/howto/recover.md"),
    "tests/integration/databases": ("docs/tenants.md",),
    "tests/integration/django_data": (
        *("docs/django.md", "docs/django-admin.md", "docs/django-testing.md"),
        "docs/from/django-tasks.md",
    ),
    "tests/integration/federation": ("docs/federation.md",),
    "tests/integration/frameworks": (
        *("docs/fastapi.md", "docs/flask.md", "docs/frameworks.md", "docs/litestar.md"),
    ),
    "tests/integration/graphs": ("docs/graphs.md",),
    "tests/integration/hub": ("docs/hub.md",),
    "tests/integration/limits": ("docs/limits.md",),
    "tests/integration/records": ("docs/filters.md",),
    "tests/integration/schedules": ("docs/schedules.md",),
    "tests/integration/tasks": ("docs/tasks.md",),
    "tests/integration/telemetry": ("docs/sentry.md", "docs/telemetry.md", "docs/tracing.md"),
    "tests/integration/topics": ("docs/topics.md",),
    "tests/integration/transactions": ("docs/database.md", "docs/guarantees.md"),
    "tests/integration/uniqueness": ("docs/uniqueness.md",),
    "tests/integration/web": ("docs/dashboard.md",),
    "tests/integration/webhooks": ("docs/webhooks.md", "docs/howto/receive-webhooks.md"),
    "tests/integration/worker": (
        *("docs/tutorial.md", "docs/worker.md"),
        *("docs/howto/idempotent-effects.md", "docs/howto/long-jobs.md"),
    ),
    "tests/unit/testing": (
        *(f"docs/from/{name}.md" for name in ("apscheduler", "celery", "django-q2", "dramatiq")),
        *(f"docs/from/{name}.md" for name in ("huey", "procrastinate", "rq")),
        *(f"docs/howto/{name}.md" for name in ("call-an-api", "customers", "import-a-csv")),
        *(f"docs/howto/{name}.md" for name in ("priorities", "scale", "test-your-code")),
    ),
}
AGAIN = {page: decided for decided, pages in DECIDED.items() for page in pages}
PAGES = [
    pytest.param(page, marks=pytest.mark.repeats(decided=AGAIN[page]) if page in AGAIN else ())
    for page in FOLLOWED
]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_works(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Every file that it shows is written and every command is run, with the output shown."""
    follow(page, tmp_path, request)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("```console\n$ python -c 'print(1)'\n2\n```\n", "said:\n1"),
        ("```console\n$ python -c 'print(1)'\n```\n", "said:\n1"),
        ("```console\n$ python -c 'raise SystemExit'\n1\n```\n", "shows:\n1"),
        ("```console\n$ python -c 'print(1)'\n2\n^C\n```\n", "said:\n1"),
        ("```python\nprint(1)\n```\n", "which file"),
        ("```sh\npython -c 'print(1)'\n```\n\n```text\n2\n```\n", "said:\n1"),
        ("```sh\npython -c 'print(1)'\n```\n", "said:\n1"),
        ("```sh\npython -c 'raise SystemExit(3)'\n```\n", "ended with 3"),
        ("```shell\nls\n```\n", "nobody knows"),
        ("```\nls\n```\n", "nobody knows"),
    ],
)
def test_a_page_that_is_wrong_is_noticed(body: str, wrong: str, tmp_path: Path) -> None:
    """The test above can fail, and says where."""
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{body}")
    with pytest.raises(AssertionError, match=re.escape(wrong)) as failure:
        Reader(tmp_path, {}, "", "").follow(page)
    assert failure.value.__notes__ == ["in page.md, the block at line 3"]


def test_a_page_that_is_right_passes(tmp_path: Path) -> None:
    """Files are written, extended and changed; what varies may vary; `^C` interrupts."""
    page = tmp_path / "page.md"
    page.write_text(_RIGHT)
    Reader(tmp_path, {"said": "meant"}, "", "").follow(page)
    assert (tmp_path / "a.py").read_text() == 'x = f("b")\n\n\nprint(x)\n'


_RIGHT = """
```python
# a.py
x = f("a")
```

```python
# a.py, continued
print(x)
```

```python
# a.py, changed
x = f("b")
```

```console
$ python -c 'print("2031-01-01 00:00:00Z meant 0.125 s and more")'
2026-11-21 14:24:20Z said 0.001 s and …
$ python -c 'print("up"); print("noise"); exec("while True: pass")'
up
^C
KeyboardInterrupt
$ python -c 'from signal import *; signal(2, lambda *_: exit("ends")); print("up"); pause()'
up
…
^C
…
ends
```

```sh
python -c 'print(1)'
python -c 'print(2); exec("while True: pass")'
```

```text
1
2
^C
KeyboardInterrupt
```

```sh by-hand
rm -rf /
```
"""


def test_the_table_of_connections_is_complete() -> None:
    """The page lists the kinds that are accepted, and no other, each with the right call."""
    rows = re.findall(
        r"^\| `([\w.]+)`.*\| (.*) \|$", _section("docs/first-steps.md", "In your own"), re.M
    )
    calls = [call for _, call in rows]
    first_async = next(n for n, call in enumerate(calls) if call.startswith("`await"))
    for some, accepted in ((rows[:first_async], kinds._SYNC), (rows[first_async:], kinds._ASYNC)):
        assert [name for name, _ in some] == _sorted(some, accepted.each)
    assert set(calls[1:first_async]) == set(calls[first_async + 1 :]) == {"the same"}


def test_the_table_of_qualifiers_is_complete() -> None:
    """Each qualifier of a filter has its row, in the order in which they are suggested."""
    page = (ROOT / "docs" / "filters.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [*QUALIFIERS]


def test_the_table_of_system_checks_is_complete() -> None:
    """Each check of a Django project has its row."""
    page = (ROOT / "docs" / "django-admin.md").read_text()
    code = (ROOT / "src/mutirao/integrations/django/system_checks.py").read_text()
    rows = re.findall(r"^\| `(mutirao\.[EW]\d+)` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted(set(re.findall(r'id="(mutirao\.[EW]\d+)"', code)))


def test_the_table_of_settings_is_complete() -> None:
    """docs/worker.md lists every setting of a worker with its default."""
    rows = re.findall(
        r"^\| `(\w+)` \| (.*?) \|", _section("docs/worker.md", "Settings"), re.MULTILINE
    )
    usual = WorkerSettings()
    shown = dict(rows)
    assert list(shown) == [field.name for field in fields(WorkerSettings)]
    in_words = {"queues", "exclude_queues", "tasks", "retention", "keep_hours", "exit_when_stuck"}
    in_words |= {
        "keep_inbox",
        "keep_said",
        "keep_audit",
        "webhooks",
        "app_version",
        "drain_on_new_version",
        "metrics_port",
        "metrics_host",
    }
    in_words |= {"retry", "max_attempts", "timeout", "connections"}
    for name in shown.keys() - in_words - {"log_jobs"}:
        assert float(shown[name].replace(",", "")) == getattr(usual, name), name


@pytest.mark.parametrize(
    ("heading", "column", "names"),
    [
        ("Define", "option of `@app.task`", {*TaskTerms.__annotations__}),
        ("Enqueue", "option of `task.using`", {"conn", *CallTerms.__annotations__}),
        ("The job", "of a `Job`", {name for name in dir(Job) if name[0] != "_"}),
        ("Outcomes and states", "outcome of an attempt", {str(kind) for kind in OutcomeKind}),
        ("Outcomes and states", "state of a job", {str(state) for state in JobState}),
    ],
)
def test_the_tables_of_names_are_complete(heading: str, column: str, names: set[str]) -> None:
    """docs/tasks.md lists what there is, and nothing else."""
    section = _section("docs/tasks.md", heading)
    _, _, table = section.partition(f"| {column} |")
    rows = table.partition("\n\n")[0].splitlines()[2:]
    shown = {name for row in rows for name in re.findall(r"`(\w+)(?:\(\))?`", row.split("|")[1])}
    assert shown == names


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link of every document leads to a file, and to a heading that is there."""
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), target
        if anchor:
            assert anchor in _anchors(there), target


def test_every_decision_is_in_the_index() -> None:
    """docs/adr/README.md names each page once, with its number and its title."""
    index = (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d+)\]\(([\w.-]+)\) \| (.*) \|$", index, re.MULTILINE)
    pages = sorted(path for path in (ROOT / "docs/adr").glob("[0-9]*.md"))
    assert [name for _, name, _ in rows] == [page.name for page in pages]
    for (number, _, title), page in zip(rows, pages, strict=True):
        assert page.read_text(encoding="utf-8").startswith(f"# {number}. {title}\n"), page.name


def test_quickstart_is_not_by_hand() -> None:
    """What strangers paste first is run here, but for what installs the package."""
    shown = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    by_hand = [block.body.split()[1] for block in shown if block.kind == "sh by-hand"]
    assert by_hand == ["-m"]


def _section(page: str, heading: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"^##+ {heading}.*?(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {heading!r}"
    return found[0]


def _sorted(rows: list[tuple[str, str]], there: tuple[kinds.ConnectionKind, ...]) -> list[str]:
    names = {str(kind) for kind in there}
    order = [name for name, _ in rows if name in names]
    return order + sorted(names - set(order))


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}
