"""The kiosk's table, as `manage.py makemigrations` writes it."""

from django.db import migrations, models

ORDER = [
    ("id", models.BigAutoField("ID", auto_created=True, primary_key=True, serialize=False)),
    ("item", models.TextField()),
    ("receipts", models.IntegerField(default=0)),
]


class Migration(migrations.Migration):  # type: ignore[misc]
    """The first one. The tables of jobs have migrations of their own."""

    initial = True
    operations = [migrations.CreateModel("Order", ORDER)]  # noqa: RUF012 (as Django's own)
