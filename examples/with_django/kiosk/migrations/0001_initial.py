"""The kiosk's table, and those of the jobs beside it."""

from django.db import migrations, models

from mutirao import Mutirao

ORDER = [
    ("id", models.BigAutoField(primary_key=True)),
    ("item", models.TextField()),
    ("receipts", models.IntegerField(default=0)),
]


class Migration(migrations.Migration):  # type: ignore[misc]
    """The first one. Mutirão's SQL for SQLite has a transaction of its own."""

    initial, atomic = True, False
    operations = [  # noqa: RUF012 (as Django's own)
        migrations.CreateModel("Order", ORDER),
        migrations.RunSQL(Mutirao.ddl("sqlite")),
    ]
