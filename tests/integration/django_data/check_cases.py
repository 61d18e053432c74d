"""System checks, in the process of a project on an empty database, run with its URL."""

from __future__ import annotations

import sys
import unittest
from typing import Any
from unittest.mock import patch

from tests.integration.django_data.djproject import database, set_up

if __name__ != "__main__":
    raise ImportError("run this as a program")

URL = sys.argv[1]
OTHER = {**database(URL), "ATOMIC_REQUESTS": True}
if OTHER["ENGINE"].endswith("sqlite3"):
    OTHER["NAME"] += "-other"
BACKEND = "mutirao.integrations.django.MutiraoBackend"
set_up(
    URL,
    DATABASES={"default": database(URL), "shop": OTHER},
    TASKS={"default": {"BACKEND": BACKEND, "QUEUES": ["default", "mail"]}},
)

from django.apps import apps  # noqa: E402 (it needs the settings)
from django.core import checks  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import override_settings  # noqa: E402

from mutirao import Mutirao  # noqa: E402
from mutirao.engine.settings import WorkerSettings, identity  # noqa: E402
from mutirao.integrations.django import MutiraoBackend, app  # noqa: E402
from mutirao.sql.schema.version import head  # noqa: E402
from mutirao.testing import drain  # noqa: E402


def found(**how: Any) -> dict[str, str]:
    """Return the messages of all checks of ours, by their ids."""
    return {
        each.id: f"{each.msg} {each.hint}"
        for each in checks.run_checks(**how)
        if each.id and each.id.startswith("mutirao.")
    }


class Checks(unittest.TestCase):
    """Each has a sentence that says what to do."""

    def test_0_before_migrating(self) -> None:
        """No migration was run: told, and no error, so that `migrate` can."""
        said = found(databases=["default"])
        assert "manage.py migrate" in said["mutirao.W007"]
        assert "mutirao.W007" not in found()
        call_command("migrate", verbosity=0)
        assert "mutirao.W007" not in found(databases=["default"])
        with connection.cursor() as cursor:
            cursor.execute("UPDATE mutirao_version SET version_num = '0999'")
            assert "Upgrade the package" in found(databases=["default"])["mutirao.W007"]
            cursor.execute("UPDATE mutirao_version SET version_num = %s", [head()])

    def test_the_app_is_not_installed(self) -> None:
        """Whoever names the backend needs the app, too."""
        config = apps.app_configs.pop("mutirao")
        try:
            backend = MutiraoBackend("default", {"OPTIONS": {}})
            assert "INSTALLED_APPS" in backend.check()[0].msg
            assert backend.check()[0].id == "mutirao.E001"
        finally:
            apps.app_configs["mutirao"] = config
        assert [*MutiraoBackend("default", {"OPTIONS": {}}).check()] == []

    def test_aliases(self) -> None:
        """One that does not exist, one that no worker looks at, one with ATOMIC_REQUESTS."""
        ids = {
            alias: [
                each.id
                for each in MutiraoBackend("default", {"OPTIONS": {"database": alias}}).check()
            ]
            for alias in ("nowhere", "shop", "default")
        }
        assert ids["nowhere"] == ["mutirao.E002"]
        if connection.vendor == "sqlite":
            assert ids["shop"] == ["mutirao.W003"]
        assert ids["default"] == []
        assert "DATABASES['shop'] has ATOMIC_REQUESTS" in found()["mutirao.W004"]

    def test_sqlite(self) -> None:
        """A transaction that begins as a reader, a database that only this process has."""
        if connection.vendor != "sqlite":
            return
        assert not {"mutirao.W005", "mutirao.W006"} & found().keys()
        options = connection.settings_dict["OPTIONS"]
        before = options.pop("transaction_mode")
        assert "'transaction_mode': 'IMMEDIATE'" in found()["mutirao.W005"]
        options["transaction_mode"] = before
        name = connection.settings_dict["NAME"]
        connection.settings_dict["NAME"] = ":memory:"
        assert "Name a file" in found()["mutirao.W006"]
        connection.settings_dict["NAME"] = "file:memorydb_default?mode=memory&cache=shared"
        assert not {"mutirao.W005", "mutirao.W006"} & found().keys()
        connection.settings_dict["NAME"] = name

    def test_a_task_of_the_program(self) -> None:
        """A worker is another program."""

        def lost() -> None:
            """Be found by nobody."""

        assert "mutirao.E008" not in found()
        app.task(name="lost")(lost)
        assert "tasks.py" in found()["mutirao.E008"]
        del app._tasks["lost"]

    def test_the_dashboard(self) -> None:
        """It is in the project's URLs, and what it needs is not installed."""
        assert "mutirao.E012" not in found()
        gone = {name: None for name in sys.modules if name.split(".")[0] == "starlette"}
        kept = {name for name in sys.modules if name.startswith("mutirao.web.")}
        with patch.dict(sys.modules, gone):
            for name in kept:
                del sys.modules[name]
            assert "starlette" in found()["mutirao.E012"]
            assert "mutirao[web]" in found()["mutirao.E012"]

    def test_queues_and_workers(self) -> None:
        """A queue that no worker serves, and a worker of a queue that nobody has."""
        assert not {"mutirao.W009", "mutirao.W010"} & found(databases=["default"]).keys()
        other = Mutirao(URL)
        served = identity(WorkerSettings(queues=("default", "mial")), "0")
        worker = other._portal.call(other.store.register, served, expiry=60)
        said = found(databases=["default"])
        assert "'mail'" in said["mutirao.W009"]
        assert "'mial'" in said["mutirao.W010"]
        with override_settings(TASKS={}):
            assert "mutirao.W009" not in found(databases=["default"])
        other._portal.call(other.store.retire, worker)
        other.close()

    def test_two_projects_in_one_database(self) -> None:
        """What another program has run there is seen."""
        assert "mutirao.W011" not in found(databases=["default"])
        other = Mutirao(URL)
        other.task(name="crm.sync")(print).enqueue()
        drain(other)
        other.close()
        assert "'crm.sync'" in found(databases=["default"])["mutirao.W011"]


unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
