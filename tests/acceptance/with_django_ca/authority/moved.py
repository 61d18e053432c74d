"""What `django_ca/celery/base.py` imports in place of `celery`."""

from typing import Any

from mutirao.integrations.celery import CeleryTasks
from mutirao.integrations.django import app

celery = CeleryTasks(app, keep_results=True)


class Task:
    """Its base class made messages of JSON again, which annotations do here."""


def shared_task(*function: Any, base: Any = None, **options: Any) -> Any:
    """Decorate as Celery's; a base class has no equal."""
    return celery.shared_task(*function, **options)
