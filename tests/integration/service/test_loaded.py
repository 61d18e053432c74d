"""What a program has loaded: nothing of what it does not use."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.integration.cli.conftest import make_shop
from tests.integration.cli.test_worker import working

# Of packages, all that is below, too.
NEVER = (
    "MySQLdb",
    "aiomysql",
    "aiormq",
    "aiosqlite",
    "boto3",
    "cryptography",
    "httpx2",
    "jinja2",
    "mutirao.federation",
    "mutirao.sql.dialects.mysql",
    "mutirao.sql.dialects.sqlite",
    "mutirao.telemetry.prometheus",
    "mutirao.testing",
    "mutirao.transports",
    "mutirao.web",
    "mutirao.webhooks",
    "prometheus_client",
    "pymysql",
    "rich",
    "sqlite3",
    "starlette",
    "uvicorn",
)
NOT_WORKING = (
    "mutirao.cli",
    "mutirao.engine",
    "click",
    "multiprocessing",
    "psycopg",
    "sqlalchemy.orm",
)
# Of features that one application in many has.
ASKED_FOR = (
    "mutirao.model.filters.filter",
    "mutirao.model.webhooks.endpoints",
    "mutirao.sql.statements.doctor",
    "mutirao.sql.statements.endpoints",
    "mutirao.sql.statements.finding.figures",
    "mutirao.sql.statements.replaying",
    "mutirao.sql.statements.webhooks",
    "mutirao.sql.store.endpoints",
    "mutirao.sql.store.reading",
)
# Of features that one application in many has, and every worker keeps house for.
OF_DUTIES = (
    "mutirao.model.audit",
    "mutirao.model.federation",
    "mutirao.model.reading",
    "mutirao.sql.statements.federation",
    "mutirao.sql.statements.ticking",
    "mutirao.sql.store.audit",
    "mutirao.sql.store.federation",
    "mutirao.sql.store.schedules",
)
# What a worker of an application with topics has, too.
OF_TOPICS = ("mutirao.sql.store.subscriptions",)
# Of what only a worker, or an application that declares such things, has.
WITHOUT_WORK = (
    "cronsim",
    "difflib",
    "mutirao.client.broker_publishing",
    "mutirao.client.kept_schedules",
    "mutirao.client.schedules",
    "mutirao.client.subscriptions",
    "mutirao.model.brokers.foreign",
    "mutirao.model.brokers.message",
    "mutirao.model.deploys",
    "mutirao.model.filters",
    "mutirao.model.findings",
    "mutirao.model.graphs.graph_plan",
    "mutirao.model.jobs.events",
    "mutirao.model.jobs.records",
    "mutirao.model.schedules",
    "mutirao.model.topics",
    "mutirao.model.webhooks.webhook_attempts",
    "mutirao.ports.measurements",
    "mutirao.tasks.blueprint",
    "mutirao.tasks.job_messages",
    "mutirao.tasks.topics",
    "zoneinfo",
)
WITHOUT_BROKERS = tuple(
    f"mutirao.engine.{each}"
    for each in (
        "brokers.consumer",
        "brokers.doorbells",
        "workers.broker_queues",
        "workers.combined",
        "workers.several_databases",
    )
)

TELLS = """
app.topic("order.placed")

@app.task
async def tell(path: str) -> None:
    import json, sys
    with open(path, "w") as file:
        json.dump(sorted(sys.modules), file)
"""


def of(packages: tuple[str, ...], loaded: list[str]) -> list[str]:
    """Return what is loaded of some packages."""
    return [
        each for each in loaded if f"{each}.".startswith(tuple(f"{name}." for name in packages))
    ]


def loaded_by(code: str) -> list[str]:
    """Return what a program has loaded, which it prints in its last line."""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded: list[str] = json.loads(told.stdout.splitlines()[-1])
    return loaded


def test_what_is_not_loaded_exists() -> None:
    """A list that names what was renamed forbids nothing; others' packages may be missing."""
    lists = (NEVER, NOT_WORKING, ASKED_FOR, OF_DUTIES, OF_TOPICS, WITHOUT_WORK, WITHOUT_BROKERS)
    names = [name for each in lists for name in each if name.startswith("mutirao.")]
    assert [name for name in names if find_spec(name) is None] == []


def test_what_importing_loads() -> None:
    """No rule, no statement, no value of a feature that the application may never use."""
    loaded = loaded_by(
        "from mutirao import Mutirao; import json, sys; print(json.dumps(sorted(sys.modules)))"
    )
    assert "mutirao.sql.store.jobs" in loaded
    assert of((*WITHOUT_WORK, "mutirao.sql.rules.fairness"), loaded) == []
    # It loads its own when they are asked for.
    assert of(("mutirao.sql.statements",), loaded) == ["mutirao.sql.statements"]


def test_what_a_program_that_enqueues_loads() -> None:
    """Whoever only enqueues has no engine, and no driver before the first connection."""
    made = "from mutirao import Mutirao; app = Mutirao('postgresql+psycopg://nowhere')"
    task = "app.task(name='hello')(print)"
    loaded = loaded_by(f"{made}; {task}; import json, sys; print(json.dumps(sorted(sys.modules)))")
    assert "mutirao.sql.store.jobs" in loaded
    parts = (*ASKED_FOR, *OF_DUTIES, *OF_TOPICS)
    assert of((*NEVER, *NOT_WORKING, *parts, "mutirao.sql.schema.views"), loaded) == []


def test_what_a_help_loads() -> None:
    """No database, no application, no command but the one that is asked for."""
    asked = "from mutirao.cli import main; main(['--help'], standalone_mode=False)"
    loaded = loaded_by(f"{asked}; import json, sys; print(json.dumps(sorted(sys.modules)))")
    assert of(("mutirao.cli.worker", "mutirao.sql", "sqlalchemy", "msgspec", "rich"), loaded) == []


@pytest.mark.usefixtures("postgres")
def test_what_a_worker_of_postgresql_loads(
    postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No code of brokers, webhooks, other databases, the dashboard or metrics.

    All that its duties use of the store is loaded before the first job: its files may be those of
    another version when a duty is due.
    """
    shell = make_shop(postgresql_url, tmp_path, monkeypatch)
    shop = tmp_path / "shop.py"
    shop.write_text(shop.read_text() + TELLS)
    shell.ok("migrate", "shop:app")
    shell.ok("enqueue", "shop:app", "tell", json.dumps({"path": str(tmp_path / "loaded")}))
    with working(shell) as worker:
        worker.wait_for(lambda record: record.get("outcome") == "succeeded")
        assert worker.end() == 0
    loaded = json.loads((tmp_path / "loaded").read_text())
    assert of(("psycopg", "mutirao.engine.workers.database"), loaded)
    assert of((*NEVER, *WITHOUT_BROKERS, *ASKED_FOR), loaded) == []
    assert {*OF_DUTIES, *OF_TOPICS} <= {*loaded}
