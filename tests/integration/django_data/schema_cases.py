"""A project whose jobs stand in a schema of their own, run on an empty PostgreSQL database."""

from __future__ import annotations

import sys
import unittest

from tests.integration.django_data.djproject import set_up

if __name__ != "__main__":
    raise ImportError("run this as a program")

set_up(sys.argv[1], MUTIRAO={"SCHEMA": "the_jobs"})

from django.core import checks  # noqa: E402 (it needs the settings)
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402

from mutirao.integrations.django import app  # noqa: E402
from mutirao.integrations.django.models import Job  # noqa: E402
from mutirao.testing import drain  # noqa: E402


@app.task
def double(number: int) -> int:
    """Return twice a number."""
    return 2 * number


def messages() -> list[str]:
    """Return the ids of our warnings about the database."""
    return [each.id for each in checks.run_checks(databases=["default"]) if "mutirao.W" in each.id]


class InASchema(unittest.TestCase):
    """Both roads, checks, models and `flush` find it."""

    def test_all_of_it(self) -> None:
        """Django's own tables are where they always are."""
        assert messages() == ["mutirao.W007"]
        call_command("migrate", verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT DISTINCT schemaname::text FROM pg_tables WHERE tablename LIKE 'mutirao%'"
            )
            assert cursor.fetchall() == [("the_jobs",)]
            cursor.execute("SELECT to_regclass('public.django_migrations') IS NOT NULL")
            assert cursor.fetchone() == (True,)
        app.migrate()
        assert messages() == []
        call_command("makemigrations", "mutirao", check_changes=True, dry_run=True, verbosity=0)
        with transaction.atomic():
            double.enqueue(4)
        drain(app)
        job = Job.objects.prefetch_related("attempts").get(args__number=4)
        assert [each.outcome for each in job.attempts.all()] == ["succeeded"]
        call_command("flush", verbosity=0, interactive=False)
        assert not Job.objects.exists()


unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
