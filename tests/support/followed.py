"""The pages that are followed from the first line to the last, and their environments.

`Here` follows them in the tests' own environment; `tests/support/clones.py` has one that holds no
more than a page has had installed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.support.documents import Here, Programs, Reader
from tests.support.mariadb import MysqlServer
from tests.support.sqs import USUAL

ROOT = Path(__file__).parents[2]
FOLLOWED = [
    "docs/tutorial.md",
    "docs/first-steps.md",
    "README.md",
    "docs/api.md",
    "docs/dashboard.md",
    "docs/database.md",
    "docs/django.md",
    "docs/django-admin.md",
    "docs/django-testing.md",
    "docs/fastapi.md",
    "docs/flask.md",
    "docs/frameworks.md",
    "docs/litestar.md",
    "docs/guarantees.md",
    "docs/filters.md",
    "docs/from/apscheduler.md",
    "docs/from/celery.md",
    "docs/from/django-q2.md",
    "docs/from/django-tasks.md",
    "docs/from/dramatiq.md",
    "docs/from/huey.md",
    "docs/from/procrastinate.md",
    "docs/from/rq.md",
    "docs/limits.md",
    "docs/logs.md",
    "docs/outbox.md",
    "docs/rabbitmq.md",
    "docs/graphs.md",
    "docs/hub.md",
    "docs/mysql.md",
    "docs/schedules.md",
    "docs/sentry.md",
    "docs/sqs.md",
    "docs/tasks.md",
    "docs/topics.md",
    "docs/tracing.md",
    "docs/uniqueness.md",
    "docs/tenants.md",
    "docs/federation.md",
    "docs/telemetry.md",
    "docs/webhooks.md",
    "docs/worker.md",
    "docs/howto/backlog.md",
    "docs/howto/call-an-api.md",
    "docs/howto/customers.md",
    "docs/howto/idempotent-effects.md",
    "docs/howto/import-a-csv.md",
    "docs/howto/long-jobs.md",
    "docs/howto/outbox-to-rabbitmq.md",
    "docs/howto/priorities.md",
    "docs/howto/receive-webhooks.md",
    "docs/howto/recover.md",
    "docs/howto/scale.md",
    "docs/howto/test-your-code.md",
]
_GUESTS = ("guest:guest@localhost", "guest@localhost")
_SHOWN = "shop:secret@localhost/shop"  # the reader's server


def follow(
    page: str, directory: Path, request: pytest.FixtureRequest, programs: Programs | None = None
) -> None:
    """Do all that a page shows, on real servers, in an empty directory.

    Parameters:
        page: one of `FOLLOWED`.
        programs: where its commands are; the tests' own by default.
    """
    reader = _reader(page, directory, request, programs or Here())
    reader.follow(ROOT / page)


def _reader(
    page: str, directory: Path, request: pytest.FixtureRequest, programs: Programs
) -> Reader:
    match page:
        case "docs/mysql.md":
            mysql: MysqlServer = request.getfixturevalue("mysql")
            return Reader(directory, on_mysql(mysql), "", "", mysql, programs=programs)
        case "docs/rabbitmq.md" | "docs/howto/outbox-to-rabbitmq.md":
            port = request.getfixturevalue("rabbit").port
            node = {each: each.replace("localhost", f"127.0.0.1:{port}") for each in _GUESTS}
            return Reader(directory, node, "", "shop.db", programs=programs)
        case "docs/django.md" | "docs/django-admin.md" | "docs/django-testing.md":
            of_project = {
                "DJANGO_SETTINGS_MODULE": "kiosk.settings",
                "MUTIRAO_APP": "mutirao.integrations.django.standalone:app",
            }
            return Reader(directory, {}, "", "kiosk.db", programs=programs, variables=of_project)
        case "docs/sqs.md":  # boto3 is to find moto's server where the page has Amazon's
            variables = {**USUAL, "AWS_ENDPOINT_URL_SQS": request.getfixturevalue("moto_url")}
            return Reader(directory, {}, "", "shop.db", programs=programs, variables=variables)
        case _ if page.startswith("docs/howto/"):  # which need no server
            return Reader(directory, {}, "", "shop.db", programs=programs)
    url = make_url(request.getfixturevalue("postgresql_url"))
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    there = plain.removeprefix("postgresql://")
    hidden = url.render_as_string(hide_password=True).removeprefix("postgresql+psycopg://")
    meant = {_SHOWN: there, _SHOWN.replace("secret", "***"): hidden}
    return Reader(directory, meant, plain, "shop.db", programs=programs)


def on_mysql(server: MysqlServer) -> dict[str, str]:
    """Return what is there for what docs/mysql.md has."""
    url = make_url(server.url(server.create_database()))
    there = url.render_as_string(hide_password=False).removeprefix("mysql+pymysql://")
    hidden = url.render_as_string(hide_password=True).removeprefix("mysql+pymysql://")
    user, password = f"{url.username}", f"{url.password}"
    connected = f'host="{url.host}", port={url.port}, user="{user}", password="{password}"'
    return {
        _SHOWN: there,
        _SHOWN.replace("secret", "***"): hidden,
        'host="localhost", user="shop", password="secret"': connected,
        'database="shop"': f'database="{url.database}"',
    }
